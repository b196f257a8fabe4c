"""The networks that chapter 4 attacks (Tables 4.7, 4.8)."""

from __future__ import annotations

from dataclasses import replace

from ...train import AdversarialConfig, Config, EvaluationConfig
from ..protocols import adam, edit

__all__ = ["OPERATORS", "attacked"]

OPERATORS = ("baseline", "sphere", "ball", "tanh")


def attacked(operator: str, training: str, also: tuple[str, ...], source: str | None = None) -> Config:
    """Thesis 4.6.2, C.1: CNN-9 of Table C.1 (32/64/128) without BatchNorm, Adam, original gradients, no projection.

    ε = 8, step 2, 20 iterations, in pixels of 255; ``training`` is ``natural`` or ``fgsm``, the latter on clean and
    attacked samples together (the mixture is not printed). Ball and tanh have a learnable ρ times the running norm.
    """
    config = adam("cifar10", "cnn9", "c1_adversarial", norm="off", init="he")
    if operator != "baseline":
        rule = {"conv": "decoupled", "magnitude": operator, "angular": "cosine"}
        config = edit(config, model=rule)
    kind = None if training == "natural" else training
    adversarial = AdversarialConfig(train=kind, source=source)
    return replace(config, adversarial=adversarial, evaluation=EvaluationConfig(also=also))
