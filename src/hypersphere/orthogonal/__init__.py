"""Orthogonal over-parameterized training: w = Rv with fixed neurons v and one learned R a layer (thesis ch. 7).

Also orthogonal adapters: the same for fine-tuning a trained network, with R = I at the start.
"""

from ._adapter import adapter, adapters, disable, enable, unmerge
from ._adapter_files import load_adapter, save_adapter
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
from ._nonlinear import Nonlinear
from ._recorded import Recorded, record

__all__ = [
    "Banded",
    "Canonical",
    "Cholesky",
    "Hessenberg",
    "LowRank",
    "Map",
    "Nonlinear",
    "Recorded",
    "SkewSymmetric",
    "Symmetric",
    "Triangular",
    "adapter",
    "adapters",
    "asks_host",
    "attach",
    "disable",
    "enable",
    "is_orthogonal",
    "load_adapter",
    "matrices",
    "merge",
    "penalty",
    "prepared",
    "record",
    "restart",
    "rotation_parameters",
    "save_adapter",
    "set_task",
    "unconverged",
    "unmerge",
]
