"""Thesis Table C.2: decoupled ResNet-32 trained by SGD on CIFAR-100."""

from __future__ import annotations

from ...train import Config
from ..protocols import edit
from ..table import Table
from ._chapter4 import Rows, angular_grid, decoupled

__all__ = ["TABLES", "tableC_2"]


def tableC_2(magnitude: str | None, angular: str = "cosine") -> Config:
    """C.6: Table 4.4 with momentum SGD."""
    return edit(decoupled("resnet32", magnitude, angular), optim={"name": "sgd", "lr": 0.1})


ERROR: Rows = {
    "sphere": (21.71, 21.61, 24.62),
    "ball": (20.96, 21.25, 24.40),
    "tanh": (21.07, 21.12, 24.29),
    "linear": (21.43, 21.25, 20.54),
    "segment": (20.58, 20.61, 20.61),
    "log": (21.15, 21.42, 23.10),
    "mix": (20.82, 21.20, 21.19),
}

TABLES = (
    Table(
        "thesis.tableC.2",
        "ResNet-32 trained by SGD on CIFAR-100",
        "error",
        angular_grid(tableC_2, ERROR, 21.55),
    ),
)
