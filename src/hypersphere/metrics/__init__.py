"""Metrics: measurements of features, class vectors and neurons."""

from ._angles import (
    angular_fisher_score,
    angular_visual_hardness,
    covering_radius,
    separation_distance,
    uniformity,
)

__all__ = [
    "angular_fisher_score",
    "angular_visual_hardness",
    "covering_radius",
    "separation_distance",
    "uniformity",
]
