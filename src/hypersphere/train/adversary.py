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


@dataclass(frozen=True)
class AdversarialConfig:
    """Adversarial training, and the budget of the attacks that the final network is measured under."""

    train: str | None = option(None, "attack the training batches: fgsm, bim, pgd; none: natural training")
    mixture: str = option("both", "of clean and attacked samples, both (the batch doubles), or replace")
    fraction: float = option(1.0, "share of the samples that are attacked in training")
    eps: float = option(8.0, "largest change of a pixel of 0..255")
    step: float = option(2.0, "change of a pixel in one iteration of bim and pgd")
    iterations: int = option(20, "iterations of bim and pgd")
    source: str | None = option(
        None, "transferred attacks: the run that they are made on, a folder or the name of a run beside this one"
    )

    def __post_init__(self) -> None:
        if self.train is not None:
            check_choice("adversarial.train", self.train, ("fgsm", "bim", "pgd"))
        check_choice("adversarial.mixture", self.mixture, ("both", "replace"))
        check_positive("adversarial.eps", self.eps)
        check_positive("adversarial.step", self.step)
        check_count("adversarial.iterations", self.iterations)
        if not 0 < self.fraction <= 1:
            raise ValueError(f"adversarial.fraction={self.fraction} must be above 0 and at most 1")


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
