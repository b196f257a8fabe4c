"""The classifier behind an inception score: bytes of images → logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import data
from ..config import Config
from ..runs import Facts, Run, beside, load

__all__ = ["is_file", "make_scorer"]

Scorer = Callable[[Tensor], Tensor]


def make_scorer(config: Config, facts: Facts, device: torch.device) -> Scorer:
    """What ``evaluation.inception`` names: a file of ``torch.export``, or a run of a classifier on such images.

    A file ``NAME.pt2`` is looked for as it is and under the data root. It takes float images ``(N, C, H, W)`` with
    pixels x/127.5 − 1 and gives logits: Inception-v3 with its resizing gives the published score. Scores by a run's
    classifier compare with each other only.
    """
    name = str(config.evaluation.inception)
    if is_file(config):
        root = data.default_root() if config.data.root is None else Path(config.data.root).expanduser()
        found = [path for path in (Path(name).expanduser(), root / name) if path.is_file()]
        if not found:
            raise FileNotFoundError(
                f"evaluation.inception={name!r} is neither here nor in {root}: it is a file of torch.export that takes "
                "images (N, C, H, W) with pixels x/127.5 - 1 and gives the logits of Inception-v3"
            )
        return _exported(str(found[0].resolve()), str(device))
    return _trained(str(beside(config, name).resolve()), config.data.root, facts, str(device))


def is_file(config: Config) -> bool:
    """Whether a file of ``torch.export`` scores, not a run."""
    return str(config.evaluation.inception).endswith(".pt2")


@lru_cache(maxsize=1)
def _exported(path: str, device: str) -> Scorer:
    try:
        network: Any = torch.export.load(path).module().to(device)
    except Exception as error:  # a foreign file may be wrong in any way
        raise ValueError(f"{path} is no file that torch.export.save wrote for this torch: {error}") from error

    def score(pixels: Tensor) -> Tensor:
        out: Tensor = network(pixels.float() / 127.5 - 1)
        return out.float()

    return score


@lru_cache(maxsize=1)
def _trained(path: str, root: str | None, facts: Facts, device: str) -> Scorer:
    run = Run(path)
    settings, known = run.config.data, run.facts()
    if run.config.gan.generator is not None or known.num_classes < 2:
        raise ValueError(f"evaluation.inception: {path} is no classifier")
    if (known.in_channels, known.image_size) != (facts.in_channels, facts.image_size):
        raise ValueError(
            f"evaluation.inception: {path} classifies images of {known.in_channels} channels and {known.image_size} "
            f"pixels, not {facts.in_channels} and {facts.image_size}"
        )
    network = load(path, device=device)
    moments: dict[str, Any] = {}
    if settings.normalize in data.MEASURED:
        learned = data.load(settings.name, settings.root or root).shrunk(settings.shrink)
        moments = {"mean": learned.mean, "std": learned.std}

    def score(pixels: Tensor) -> Tensor:
        out: Tensor = network(data.normalize(pixels, settings.normalize, **moments))
        return out.float()

    return score
