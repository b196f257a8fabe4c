"""Thesis Table D.6: MHE on imbalanced CIFAR-100, CNN-9."""

from __future__ import annotations

from ..table import Table
from ._chapter5 import imbalance

__all__ = ["TABLES"]

ERROR = {  # single, multiple
    "baseline": (31.43, 38.39),
    "orthonormal": (30.75, 37.89),
    "mhe": (29.30, 37.07),
    "half-mhe": (29.40, 36.52),
    "a-mhe": (30.16, 37.54),
    "half-a-mhe": (29.60, 37.07),
}

TABLES = (Table("thesis.tableD.6", "Imbalanced CIFAR-100, CNN-9", "error", imbalance("cifar100", ERROR)),)
