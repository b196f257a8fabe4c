"""An optimizer on orthogonal matrices, and aids for weights of which only the direction counts."""

from .aids import WeightProjection, parameter_groups, weighted_gradients
from .orthogonal_sgd import OrthogonalSGD

__all__ = ["OrthogonalSGD", "WeightProjection", "parameter_groups", "weighted_gradients"]
