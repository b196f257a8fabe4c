"""Adversarial training: every batch is joined or replaced by its attacked copy (thesis 4.6.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from torch import Tensor, nn

from .. import attacks
from .._core.errors import check_choice, check_count, check_positive
from .data import Source
from .objective import Objective
from .options import option

__all__ = ["AdversarialConfig", "Adversary", "make_adversary", "make_attack"]

Adversary = Callable[[tuple[Tensor, ...], Tensor], tuple[tuple[Tensor, ...], Tensor]]


def make_attack(name: str, config: AdversarialConfig, source: Source, **settings: object) -> Callable[..., Tensor]:
    """``attack(model, x, labels)`` with the budget of the settings, in the units of the data."""
    pixels = source.pixels
    if pixels is None:
        raise ValueError("attacks change the pixels of images: these data are no images")
    if name == "deepfool":
        return partial(attacks.deepfool, clip=pixels.clip, **settings)  # type: ignore[arg-type]
    eps = pixels.eps(config.eps)
    if name == "fgsm":
        return partial(attacks.fgsm, eps=eps, clip=pixels.clip, **settings)  # type: ignore[arg-type]
    rule = {"step": pixels.eps(config.step), "iterations": config.iterations, "random_start": name == "pgd"}
    return partial(attacks.bim, eps=eps, clip=pixels.clip, **rule, **settings)  # type: ignore[arg-type]


def make_adversary(config: AdversarialConfig, source: Source, objective: Objective) -> Adversary | None:
    """What turns a batch into the one that is trained on; None for natural training."""
    if config.train is None:
        return None
    loss: str | nn.Module = "log_odds" if objective.head is None else objective.head
    attack = make_attack(config.train, config, source, loss=loss, check=False)

    def adversary(inputs: tuple[Tensor, ...], labels: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        x, labels = attacks.adversarial_batch(
            objective.model, inputs[0], labels, attack, mixture=config.mixture, fraction=config.fraction
        )
        return (x,), labels

    return adversary
