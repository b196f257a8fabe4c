"""Optimizers and optimisation aids for weights that live on spheres."""

from .aids import WeightProjection, parameter_groups, weighted_gradients
from .orthogonal_sgd import OrthogonalSGD

__all__ = ["OrthogonalSGD", "WeightProjection", "parameter_groups", "weighted_gradients"]
