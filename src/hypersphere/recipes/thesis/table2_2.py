"""Thesis Table 2.2: L-Softmax on MNIST."""

from __future__ import annotations

from ..table import Table
from ._chapter2 import margins

__all__ = ["TABLES"]

TABLES = (
    Table("thesis.table2.2", "L-Softmax on MNIST", "error", margins("", "mnist", (0.47, 0.40, 0.32, 0.31, 0.31))),
)
