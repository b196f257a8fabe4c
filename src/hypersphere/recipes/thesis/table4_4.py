"""Thesis Table 4.4: decoupled ResNet-32 on CIFAR-100."""

from __future__ import annotations

from functools import partial

from ..table import Table
from ._chapter4 import Rows, angular_grid, decoupled

__all__ = ["TABLES"]

ERROR: Rows = {
    "sphere": (21.79, 21.44, 24.40),
    "ball": (21.44, 21.12, 24.31),
    "tanh": (21.6, 21.17, 24.77),
    "linear": (21.09, 22.17, 21.31),
    "segment": (20.86, 20.91, 20.88),
    "log": (21.84, 21.08, 22.86),
    "mix": (21.02, 21.28, 21.81),
}

TABLES = (
    Table(
        "thesis.table4.4",
        "ResNet-32 on CIFAR-100",
        "error",
        angular_grid(partial(decoupled, "resnet32"), ERROR, 26.69),
    ),
)
