"""Thesis Table 2.3: L-Softmax on CIFAR-10 without and with augmentation."""

from __future__ import annotations

from ..table import Table
from ._chapter2 import margins

__all__ = ["TABLES"]

TABLES = (
    Table(
        "thesis.table2.3",
        "L-Softmax on CIFAR-10 and CIFAR-10+",
        "error",
        (
            *margins("cifar10.", "cifar10", (9.91, 9.05, 7.73, 7.66, 7.58)),
            *margins("cifar10+.", "cifar10+", (6.96, 6.50, 6.01, 5.94, 5.92)),
        ),
    ),
)
