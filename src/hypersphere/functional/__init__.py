"""The equations as pure functions of tensors: no state, no modules."""

from ._angular import angular, angular_from_angle
from ._diversity import largest_cosine, polarization, uniformity
from ._energy import class_energy, energy
from ._magnitude import magnitude, magnitude_ratio
from ._margins import multiple_angle, psi
from ._operators import decoupled_conv, decoupled_conv_transpose, decoupled_linear
from ._orthogonalize import Orthogonalizer, orthogonalize, register_orthogonalizer
from ._patch_norm import patch_norm
from ._refine import refine
from ._sphere import angle, arcsin, norm, unit

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
