"""Thesis Table 7.5: OPT of CNN-6 without BatchNorm on CIFAR-100."""

from __future__ import annotations

from functools import partial

from ..table import Cell, Table
from ._chapter7 import cnn

__all__ = ["TABLES"]

ERROR: dict[str, float | None] = {
    "baseline": 38.95,
    "hs-mhe": 36.90,
    "gs": 35.61,
    "hr": 37.51,
    "ls": 35.83,
    "cp": 34.88,
    "ogd": 35.38,
    "or": None,
}

TABLES = (
    Table(
        "thesis.table7.5",
        "CNN-6 without BatchNorm on CIFAR-100 (none: not converged)",
        "error",
        tuple(Cell(method, partial(cnn, method, norm="off"), value) for method, value in ERROR.items()),
    ),
)
