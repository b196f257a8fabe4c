"""Optimizers on orthogonal matrices and on spheres, and helpers for weights whose length does not matter."""

from . import registry  # noqa: F401  (declares the optimizers)
from .aids import WeightProjection, parameter_groups, weighted_gradients
from .hyperball import AdamH, MuonH, hyperball
from .orthogonal_sgd import OrthogonalSGD

__all__ = [
    "AdamH",
    "MuonH",
    "OrthogonalSGD",
    "WeightProjection",
    "hyperball",
    "parameter_groups",
    "weighted_gradients",
]
