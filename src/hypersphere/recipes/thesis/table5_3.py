"""Thesis Table 5.3: depth on CIFAR-100."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..table import Table
from ._chapter5 import network

__all__ = ["TABLES", "table5_3"]


def table5_3(kind: str, name: str) -> Config:
    """CNN-6, 9 or 15."""
    return network(kind, name=name)


ERROR: dict[str, tuple[float | None, ...]] = {
    "baseline": (32.08, 28.13, None),
    "mhe": (28.16, 26.75, 26.9),
    "half-mhe": (27.56, 25.96, 25.84),
}

TABLES = (
    Table(
        "thesis.table5.3",
        "Depth on CIFAR-100 (none: not converged)",
        "error",
        grid(table5_3, ("cnn6", "cnn9", "cnn15"), ERROR),
    ),
)
