"""f(w, x) = h(‖w‖, ‖x‖)·g(θ) over patches: the operators as functions, and what layers build on."""

from .decoupled import WEIGHTED, AngularRule, Kernel, MagnitudeRule, decouple, make_kernel
from .geometry import Geometry
from .layers import decoupled_conv, decoupled_conv_transpose, decoupled_linear
from .patches import patch_norm

__all__ = [
    "WEIGHTED",
    "AngularRule",
    "Geometry",
    "Kernel",
    "MagnitudeRule",
    "decouple",
    "decoupled_conv",
    "decoupled_conv_transpose",
    "decoupled_linear",
    "make_kernel",
    "patch_norm",
]
