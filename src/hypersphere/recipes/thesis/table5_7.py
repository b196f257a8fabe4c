"""Thesis Table 5.7: MHE on imbalanced CIFAR-10, CNN-9."""

from __future__ import annotations

from ..table import Table
from ._chapter5 import imbalance

__all__ = ["TABLES"]

ERROR = {  # single, multiple
    "baseline": (9.80, 12.00),
    "orthonormal": (8.34, 10.80),
    "mhe": (7.98, 10.25),
    "half-mhe": (7.90, 9.59),
    "a-mhe": (7.96, 9.88),
    "half-a-mhe": (7.59, 9.89),
}

TABLES = (Table("thesis.table5.7", "Imbalanced CIFAR-10, CNN-9", "error", imbalance("cifar10", ERROR)),)
