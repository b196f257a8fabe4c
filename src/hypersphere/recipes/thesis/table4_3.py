"""Thesis Table 4.3: decoupled CNN-9 with BatchNorm, with and without ReLU, on CIFAR-100."""

from __future__ import annotations

from functools import partial

from ...train import Config
from .._grid import grid
from ..table import Cell, Table
from ._chapter4 import Rows, decoupled

__all__ = ["TABLES", "table4_3"]


def table4_3(magnitude: str | None, how: tuple[str, bool]) -> Config:
    """CNN-9 with g and with or without ReLU."""
    angular, relu = how
    return decoupled("cnn9", magnitude, angular, activation=None if relu else "off")


COLUMNS = {
    "cosine.no-relu": ("cosine", False),
    "square_cosine.no-relu": ("square_cosine", False),
    "cosine.relu": ("cosine", True),
    "square_cosine.relu": ("square_cosine", True),
}
ERROR: Rows = {
    "sphere": (33.31, 25.90, 26.00, 26.97),
    "ball": (31.81, 25.43, 25.18, 26.48),
    "tanh": (32.27, 25.27, 25.15, 26.94),
    "linear": (36.49, 24.36, 24.81, 25.14),
    "segment": (33.57, 24.29, 24.96, 25.04),
    "log": (33.62, 24.91, 25.17, 25.85),
    "mix": (33.46, 24.93, 25.27, 25.77),
}

TABLES = (
    Table(
        "thesis.table4.3",
        "CNN-9 with and without ReLU on CIFAR-100",
        "error",
        (
            Cell("baseline.no-relu", partial(table4_3, None, ("cosine", False)), 58.24),
            Cell("baseline.relu", partial(table4_3, None, ("cosine", True)), 26.01),
            *grid(table4_3, COLUMNS, ERROR),
        ),
    ),
)
