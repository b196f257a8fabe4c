"""``judge(run)``: everything that is measured of a trained network, as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import data
from .._core.errors import check_choice
from ..embedding import embed
from ..train import Config, Run, load
from ..train.distributed import Team
from ..train.environment import environment
from ..train.judge_source import test_source
from ..train.measures import ALSO, PROTOCOLS, Judged
from . import sections
from .examine import Examination, examine
from .own_pairs import read_pairs

__all__ = ["PARTS", "judge", "judge_pairs"]

CLOSED = ("classification", "hardness", "energy")  # what is measured where the test classes are those of training
OPEN = ("verification", "retrieval", "identification", "energy")
GENERATED = ("generation", "energy")
PARTS = (*dict.fromkeys((*CLOSED, *OPEN)), "few_shot", "generation", *ALSO)


def judge(
    run: Run,
    seed: int | None = None,
    parts: Sequence[str] | None = None,
    *,
    root: str | None = None,
    device: torch.device | str = "cpu",
    flip: bool | None = None,
    center: bool | None = None,
    inception: str | None = None,
) -> dict[str, Any]:
    """Evaluate the network of a seed (None: the first) on its test split.

    Args:
        parts: of :data:`PARTS`; None: what suits the run: closed set, open set or GAN.
        root: folder of the data, if it lies elsewhere than at training.
        flip, center: features of image and mirror, mean subtraction, in verification; None: as the run says.
        inception: what scores the images of a GAN; None: as the run says.
    """
    for part in parts or ():
        check_choice("parts", part, PARTS)
    number = run.seeds[0] if seed is None else seed
    config = _adjusted(run.config, root, flip, center, inception)
    found = None if _unlooked(run, parts) else examine(run, number, root=root, device=device)
    chosen = tuple(parts) if parts is not None else _suiting(found, config)
    out: dict[str, Any] = {
        "run": run.name,
        "recipe": run.recipe,
        "seed": number,
        "data": config.data.name,
        "samples": _tested(run, number, config) if found is None else len(found),
        "environment": environment(torch.device(device)),
    }
    for part in chosen:
        out[part] = _part(part, run, number, found, config, torch.device(device))
    return out


def judge_pairs(
    run: Run,
    listing: str | Path,
    folder: str | Path,
    seed: int | None = None,
    *,
    device: torch.device | str = "cpu",
    flip: bool = True,
    center: bool = False,
    folds: int = 10,
) -> dict[str, Any]:
    """Verify a user's own pairs of images: see :func:`read_pairs` for the list."""
    number = run.seeds[0] if seed is None else seed
    facts = run.facts(number)
    if facts.in_channels is None or facts.image_size is None:
        raise ValueError(f"{run.path} was not trained on images: there are no pairs of images to verify")
    own = read_pairs(listing, folder, facts.in_channels, facts.image_size)
    settings = run.config.data
    moments: dict[str, Any] = {}
    if settings.normalize == "standard":
        dataset = data.load(settings.name, settings.root)
        moments = {"mean": dataset.mean, "std": dataset.std}
    model = load(run.path, seed=number, device=device)
    features = embed(model, own.images, flip=flip, normalize=settings.normalize, **moments)
    result = sections.verification(features, torch.zeros(0), own.pairs, folds, center)
    return {
        "run": run.name,
        "recipe": run.recipe,
        "seed": number,
        "data": str(folder),
        "samples": len(own.files),
        "environment": environment(torch.device(device)),
        "verification": result,
    }


def _unlooked(run: Run, parts: Sequence[str] | None) -> bool:
    """Whether there is a GAN, of which only what it generates is measured."""
    return run.config.gan.generator is not None and set(parts or GENERATED) <= {*GENERATED, "real_inception"}


def _tested(run: Run, seed: int, config: Config) -> int:
    pictures = test_source(config, run.facts(seed), seed, torch.device("cpu")).pictures
    return 0 if pictures is None else len(pictures)


def _suiting(found: Examination | None, config: Config) -> tuple[str, ...]:
    if found is None:
        return GENERATED
    few = ("few_shot",) if config.evaluation.protocol == "few_shot" else ()
    return (*few, *OPEN) if found.logits is None else CLOSED


def _part(
    part: str, run: Run, seed: int, found: Examination | None, config: Config, device: torch.device
) -> dict[str, Any]:
    if found is not None and part in ("classification", "hardness", "retrieval", "identification"):
        return _of_features(part, found)
    model = load(run.path, seed=seed, device=device)
    if part == "energy":
        return sections.energy(model)
    judged = Judged(model, test_source(config, run.facts(seed), seed, device), Team(0, 1, device), config)
    with judged.evaluating():
        if part in ("few_shot", "generation"):
            return dict(PROTOCOLS[part](judged))
        if part in ALSO:
            return dict(ALSO[part](judged))
        features: Tensor
        features, labels = judged.embedding(config.evaluation.flip)
    rule = config.evaluation
    return sections.verification(features, labels, judged.source.pairs, rule.folds, rule.center)


def _of_features(part: str, found: Examination) -> dict[str, Any]:
    if part == "classification":
        return sections.classification(found)
    if part == "retrieval":
        return sections.retrieval(found.features, found.labels)
    if part == "identification":
        return sections.identification(found.features, found.labels)
    return sections.hardness(found)


def _adjusted(
    config: Config, root: str | None, flip: bool | None, center: bool | None, inception: str | None
) -> Config:
    rule = config.evaluation
    rule = rule if inception is None else replace(rule, inception=inception)
    rule = replace(rule, flip=rule.flip if flip is None else flip, center=rule.center if center is None else center)
    if root is None:
        return replace(config, evaluation=rule)
    return replace(config, evaluation=replace(rule, root=root), data=replace(config.data, root=root))
