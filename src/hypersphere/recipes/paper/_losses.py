"""The losses of the paper's Table 1, by the name of their column."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...train import Config, LossConfig

__all__ = ["LOSSES", "with_loss"]

LOSSES: dict[str, dict[str, Any]] = {
    "softmax": {"name": "cross_entropy"},
    "w-sigmoid0.1": {"name": "w_softmax", "angular": "sigmoid", "k": 0.1},
    "w-sigmoid0.3": {"name": "w_softmax", "angular": "sigmoid", "k": 0.3},
    "w-sigmoid0.7": {"name": "w_softmax", "angular": "sigmoid", "k": 0.7},
    "w-linear": {"name": "w_softmax", "angular": "linear"},
    "w-cosine": {"name": "w_softmax", "angular": "cosine"},
    # λ of the margins: SphereFace's published schedule (thesis A.7); the paper names none for CIFAR
    "a-softmax": {"name": "a_softmax", "margin": 4, "annealing": "sphereface"},
    "ga-softmax": {"name": "ga_softmax", "margin": 4, "angular": "linear", "annealing": "sphereface"},
}


def with_loss(config: Config, name: str) -> Config:
    """``config`` with a loss of Table 1."""
    return replace(config, loss=LossConfig(**LOSSES[name]))
