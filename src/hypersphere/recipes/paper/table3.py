"""Paper Table 3 (thesis Table 3.3): CNN-18 without ReLU on CIFAR-10."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import edit
from ..table import Cell, Table
from .table2 import table2

__all__ = ["TABLES", "table3"]


def table3(conv: str) -> Config:
    """CNN-18 without ReLU (with BatchNorm)."""
    return edit(table2(conv, "cnn18"), model={"activation": "off"})


ACCURACY = {
    "sigmoid0.1": 86.29,
    "sigmoid0.3": 85.67,
    "sigmoid0.7": 85.51,
    "linear": 85.34,
    "cosine": 85.25,
    "original": 80.73,
}

TABLES = (
    Table(
        "paper.table3",
        "CNN-18 without ReLU on CIFAR-10 (paper Table 3, thesis Table 3.3)",
        "accuracy",
        tuple(Cell(conv, partial(table3, conv), value) for conv, value in ACCURACY.items()),
    ),
)
