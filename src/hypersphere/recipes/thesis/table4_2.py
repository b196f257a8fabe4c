"""Thesis Table 4.2: decoupled CNN-9 without BatchNorm on CIFAR-100."""

from __future__ import annotations

from functools import partial

from ..table import Table
from ._chapter4 import Rows, angular_grid, decoupled

__all__ = ["TABLES"]

ERROR: Rows = {
    "linear": (33.39, 31.76, None),
    "tanh": (32.88, 31.88, 34.26),
    "segment": (34.69, 30.34, None),
}

TABLES = (
    Table(
        "thesis.table4.2",
        "CNN-9 without BatchNorm on CIFAR-100 (none: not converged)",
        "error",
        angular_grid(partial(decoupled, "cnn9", norm="off"), ERROR, 35.30),
    ),
)
