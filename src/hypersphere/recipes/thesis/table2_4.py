"""Thesis Table 2.4: L-Softmax on CIFAR-100."""

from __future__ import annotations

from ..table import Table
from ._chapter2 import margins

__all__ = ["TABLES"]

TABLES = (
    Table(
        "thesis.table2.4",
        "L-Softmax on CIFAR-100",
        "error",
        margins("", "cifar100", (32.90, 32.74, 29.95, 29.87, 29.53)),
    ),
)
