"""Thesis Table 5.2: width of CNN-9 on CIFAR-100."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..table import Table
from ._chapter5 import network

__all__ = ["TABLES", "table5_2"]


def table5_2(kind: str, widths: str) -> Config:
    """CNN-9 with filters by stage, e.g. ``16-32-64``."""
    return network(kind, widths=widths.replace("-", ","))


WIDTHS = ("16-32-64", "32-64-128", "64-128-256", "128-256-512", "256-512-1024")
ERROR = {
    "baseline": (47.72, 38.64, 28.13, 24.95, 25.45),
    "mhe": (36.84, 30.05, 26.75, 24.05, 23.14),
    "half-mhe": (35.16, 29.33, 25.96, 23.38, 21.83),
}

TABLES = (Table("thesis.table5.2", "Width of CNN-9 on CIFAR-100", "error", grid(table5_2, WIDTHS, ERROR)),)
