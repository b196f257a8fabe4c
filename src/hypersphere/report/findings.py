"""What the network of a run shows: of itself (energies, learned k and ρ), and of its test split where there is one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from .. import angular, data, magnitude
from ..config import with_values
from ..evaluation import Outputs, Verified, candidate_of, layer_energies, verify
from ..evaluation.pair_results import PAIRS_FILE, KeptPairs, read_kept
from ..runs import is_alive, load
from .subject import Subject


@dataclass(frozen=True, eq=False)
class Findings:
    """Of one seed. ``missing`` says in sentences what could not be shown and how to get it."""

    seed: int
    k: dict[str, list[float]] = field(default_factory=dict)
    rho: dict[str, list[float]] = field(default_factory=dict)
    energies: dict[str, float] = field(default_factory=dict)
    found: Outputs | None = None
    verified: Verified | None = None
    pairs: KeptPairs | None = None
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


def evaluate_subject(
    subject: Subject, *, root: str | None = None, device: torch.device | str = "cpu", look: bool = True
) -> Findings:
    """A damaged network is a ``ValueError``; missing data are not, and are never downloaded."""
    run, seed, device = subject.run, subject.shown_seed, torch.device(device)
    folder = run.folder(seed)
    if not (folder.path / "model.safetensors").exists() and folder.latest() is None:
        return Findings(seed, missing=("The training has no network yet, so this report shows the log only.",))
    own = run.own_loop(seed)
    if own is not None and not own.get("rebuilds") and not is_alive(run.path, seed):
        why = f"The network was trained by your own loop, and {own.get('why_not')}, so this report shows the log only."
        return Findings(seed, missing=(why,))
    model = load(run.path, seed=seed, device="cpu")
    energies = layer_energies(model)
    layers = {name.removesuffix(".weight"): value for name, value in (energies.hidden | energies.output).items()}
    kept = folder.path / PAIRS_FILE
    pairs = read_kept(kept) if kept.exists() else None
    known = Findings(seed, learned_k(model), learned_rho(model), layers, pairs=pairs)
    if run.config.gan.generator is not None:
        pictures = folder.path / "samples"
        return replace(known, missing=(f"A GAN has no features and classes to show; what it made is in {pictures}.",))
    if own is not None and not own.get("data"):
        return replace(known, missing=("The settings name no data set (data.name) on which to run the network.",))
    if not look:
        return replace(known, missing=("The network was not run on its test split: this report shows the log only.",))
    config = run.config if root is None else with_values(run.config, {"data.root": root, "evaluation.root": root})
    name, place = config.evaluation.data or config.data.name, config.data.root
    place = (config.evaluation.root or place) if config.evaluation.data else place
    try:
        if name != "folder" and not data.available(name, place):  # one's own images are not downloaded
            data.load(name, place, download=False)  # raises an error that names the missing files
        candidate = candidate_of(run, seed, root=root, device=device)
        with candidate.evaluating():
            found = candidate.outputs
            verifies = found.logits is None and config.evaluation.protocol == "verification"
            return replace(known, found=found, verified=verify(candidate) if verifies else None)
    except ValueError as error:
        if own is None:
            raise
        return replace(known, missing=(f"Features, confusion and examples are missing: {error}.",))
    except (OSError, ImportError) as error:
        return replace(
            known,
            missing=(
                "The test data could not be read, so features, confusion and examples are missing. "
                f"{error}. Then write the report again, with --root DATA if the data lie elsewhere.",
            ),
        )


def learned_k(model: nn.Module) -> dict[str, list[float]]:
    """The curvatures of every learnable sigmoid, by layer."""
    return _learned(model, angular.Sigmoid, "k")


def learned_rho(model: nn.Module) -> dict[str, list[float]]:
    """The radii of every learnable h, by layer."""
    return _learned(model, magnitude.Magnitude, "rho")


def _learned(model: nn.Module, kind: type[nn.Module], name: str) -> dict[str, list[float]]:
    learn = [
        (n, m) for n, m in model.named_modules() if isinstance(m, kind) and getattr(m, f"raw_{name}", None) is not None
    ]
    return {_layer(n): torch.as_tensor(getattr(m, name)).detach().float().flatten().tolist() for n, m in learn}


def _layer(name: str) -> str:
    return re.sub(r"\.?(angular|magnitude)$", "", name.removeprefix("network.")) or "network"
