"""Orthogonal over-parameterized training: w = Rv with fixed neurons v and one learned R a layer (thesis ch. 7)."""

from ._attach import attach
from ._blocks import is_orthogonal
from ._maps import Banded, Canonical, Cholesky, Hessenberg, LowRank, Map, SkewSymmetric, Symmetric, Triangular
from ._merge import merge
from ._model import (
    asks_host,
    matrices,
    penalty,
    prepared,
    restart,
    rotation_parameters,
    set_task,
    unconverged,
)

__all__ = [
    "Banded",
    "Canonical",
    "Cholesky",
    "Hessenberg",
    "LowRank",
    "Map",
    "SkewSymmetric",
    "Symmetric",
    "Triangular",
    "asks_host",
    "attach",
    "is_orthogonal",
    "matrices",
    "merge",
    "penalty",
    "prepared",
    "restart",
    "rotation_parameters",
    "set_task",
    "unconverged",
]
