"""The equations as pure functions of tensors, without state: operators, energies, margins and orthogonal maps."""

from .._core.sphere import angle, arcsin, norm, unit
from .angular import angular, angular_from_angle
from .energy import class_energy, energy, largest_cosine, polarization, refine, uniformity
from .magnitude import magnitude, magnitude_ratio
from .margins import multiple_angle, psi
from .operators import decoupled_conv, decoupled_conv_transpose, decoupled_linear, patch_norm
from .orthogonalize import Orthogonalizer, orthogonalize, register_orthogonalizer

__all__ = [
    "Orthogonalizer",
    "angle",
    "angular",
    "angular_from_angle",
    "arcsin",
    "class_energy",
    "decoupled_conv",
    "decoupled_conv_transpose",
    "decoupled_linear",
    "energy",
    "largest_cosine",
    "magnitude",
    "magnitude_ratio",
    "multiple_angle",
    "norm",
    "orthogonalize",
    "patch_norm",
    "polarization",
    "psi",
    "refine",
    "register_orthogonalizer",
    "uniformity",
    "unit",
]
