"""Hyperspherical and decoupled layers, with the arguments and shapes of the layers of ``torch.nn``."""

from .conv import DecoupledConv1d, DecoupledConv2d, DecoupledConv3d, SphereConv1d, SphereConv2d, SphereConv3d
from .conv_transpose import (
    DecoupledConvTranspose1d,
    DecoupledConvTranspose2d,
    DecoupledConvTranspose3d,
    SphereConvTranspose1d,
    SphereConvTranspose2d,
    SphereConvTranspose3d,
)
from .fold import Folded, fold
from .fuse import Fusion, fuse
from .linear import DecoupledLinear, DecoupledTransposedLinear, SphereLinear, SphereTransposedLinear
from .recurrent import DecoupledGRU, DecoupledLSTM, DecoupledRNN, SphereGRU, SphereLSTM, SphereRNN

__all__ = [
    "DecoupledConv1d",
    "DecoupledConv2d",
    "DecoupledConv3d",
    "DecoupledConvTranspose1d",
    "DecoupledConvTranspose2d",
    "DecoupledConvTranspose3d",
    "DecoupledGRU",
    "DecoupledLSTM",
    "DecoupledLinear",
    "DecoupledRNN",
    "DecoupledTransposedLinear",
    "Folded",
    "Fusion",
    "SphereConv1d",
    "SphereConv2d",
    "SphereConv3d",
    "SphereConvTranspose1d",
    "SphereConvTranspose2d",
    "SphereConvTranspose3d",
    "SphereGRU",
    "SphereLSTM",
    "SphereLinear",
    "SphereRNN",
    "SphereTransposedLinear",
    "fold",
    "fuse",
]
