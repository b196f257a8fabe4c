"""What the network of a run shows: of itself, and of its test split where the data can be found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from .. import data
from ..evaluation import Examination, examine
from ..train import load, with_values
from ..train.judge_source import test_source
from .learned import layer_energies, learned_k, learned_rho
from .subject import Subject
from .verification import Verified, verify

__all__ = ["Observation", "observe"]


@dataclass(frozen=True, eq=False)
class Observation:
    """Of one seed. ``missing`` says in sentences what could not be shown and how to get it."""

    seed: int
    k: dict[str, list[float]] = field(default_factory=dict)
    rho: dict[str, list[float]] = field(default_factory=dict)
    energies: dict[str, float] = field(default_factory=dict)
    found: Examination | None = None
    verified: Verified | None = None
    missing: tuple[str, ...] = ()

    @property
    def has_angles(self) -> bool:
        """Whether there are class vectors of the test classes."""
        return (
            self.found is not None
            and self.found.logits is not None
            and self.found.class_vectors is not None
            and bool(self.found.class_vectors.isfinite().all())
        )


def observe(
    subject: Subject, *, root: str | None = None, device: torch.device | str = "cpu", look: bool = True
) -> Observation:
    """A damaged network is a ``ValueError``; missing data are not, and are never downloaded."""
    run, seed, device = subject.run, subject.shown_seed, torch.device(device)
    folder = run.folder(seed)
    if not (folder.path / "model.safetensors").exists() and folder.latest() is None:
        return Observation(seed, missing=("The training has written no network yet, so this is from the log alone.",))
    model = load(run.path, seed=seed, device="cpu")
    known = Observation(seed, learned_k(model), learned_rho(model), layer_energies(model))
    if run.config.gan.generator is not None:
        pictures = folder.path / "samples"
        return _with(known, missing=(f"A GAN has no features and classes to show; what it made is in {pictures}.",))
    if not look:
        return _with(known, missing=("The network was not run on its test split: the report is from the log alone.",))
    config = run.config if root is None else with_values(run.config, {"data.root": root, "evaluation.root": root})
    name, place = config.evaluation.data or config.data.name, config.data.root
    place = (config.evaluation.root or place) if config.evaluation.data else place
    try:
        if not data.available(name, place):
            data.load(name, place, download=False)  # says what is missing
        found = examine(run, seed, root=root, device=device)
        if found.logits is not None or config.evaluation.protocol != "verification":
            return _with(known, found=found)
        source = test_source(config, run.facts(seed), seed, device)
        return _with(known, found=found, verified=verify(model.to(device), source, config, device))
    except (OSError, ImportError) as error:
        return _with(
            known,
            missing=(
                "The test data could not be read, so features, confusion and examples are missing. "
                f"{error}. Then write the report again, with --root DATA if the data lie elsewhere.",
            ),
        )


def _with(known: Observation, **more: Any) -> Observation:
    return Observation(**{**known.__dict__, **more})
