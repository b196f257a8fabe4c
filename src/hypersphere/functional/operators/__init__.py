"""f(w, x) = h(‖w‖, ‖x‖)·g(θ) over patches: the operators as functions, and what layers build on."""

from . import compiled as compiled  # defines the operator of compiled graphs
from .blocks import Activation, Norm, as_convolution_takes, fused_block
from .decoupled import WEIGHTED, AngularRule, Kernel, MagnitudeRule, decouple, make_kernel, weight_factor
from .geometry import Geometry
from .layers import decoupled_conv, decoupled_conv_transpose, decoupled_linear
from .patches import patch_norm
from .pooling import fused_max_pool

__all__ = [
    "WEIGHTED",
    "Activation",
    "AngularRule",
    "Geometry",
    "Kernel",
    "MagnitudeRule",
    "Norm",
    "as_convolution_takes",
    "decouple",
    "decoupled_conv",
    "decoupled_conv_transpose",
    "decoupled_linear",
    "fused_block",
    "fused_max_pool",
    "make_kernel",
    "patch_norm",
    "weight_factor",
]
