"""Thesis Table 6.5: depth on CIFAR-100."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..table import Table
from ._chapter6 import network

__all__ = ["TABLES", "table6_5"]


def table6_5(kind: str, name: str) -> Config:
    """CNN-6, 9 or 15."""
    return network(kind, name=name)


ERROR: dict[str, tuple[float | None, ...]] = {
    "baseline": (32.08, 28.13, None),
    "mhe": (28.16, 26.75, 26.90),
    "hs-mhe": (27.56, 25.96, 25.84),
    "rp-comhe": (26.73, 24.39, 24.21),
    "ap-comhe": (26.55, 24.33, 24.55),
}

TABLES = (
    Table(
        "thesis.table6.5",
        "Depth on CIFAR-100 (none: not converged)",
        "error",
        grid(table6_5, ("cnn6", "cnn9", "cnn15"), ERROR),
    ),
)
