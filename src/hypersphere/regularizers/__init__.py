"""Regularizers on the directions of neurons: each is built on a model and called in every step, ``loss + reg()``."""

from .._core.registries import REGULARIZERS
from . import registry  # noqa: F401  (declares the regularizers)
from ._base import HiddenRegularizer, Regularizer
from ._baselines import SRIP, Orthogonal, Orthonormal
from ._comhe import CoMHE
from ._diversity import Polarization, Separation, Uniformity
from ._energies import Energies, energies
from ._low_rank import LowRankBilateral, low_rank
from ._mhe import MHE

__all__ = [
    "MHE",
    "REGULARIZERS",
    "SRIP",
    "CoMHE",
    "Energies",
    "HiddenRegularizer",
    "LowRankBilateral",
    "Orthogonal",
    "Orthonormal",
    "Polarization",
    "Regularizer",
    "Separation",
    "Uniformity",
    "energies",
    "low_rank",
]
