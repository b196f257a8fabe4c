"""Thesis Table 6.4: width of CNN-9 on CIFAR-100."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..table import Table
from ._chapter6 import network

__all__ = ["TABLES", "table6_4"]


def table6_4(kind: str, t: int) -> Config:
    """CNN-9 with 16t/32t/64t filters."""
    return network(kind, widths=f"{16 * t},{32 * t},{64 * t}")


ERROR = {
    "baseline": (47.72, 38.64, 28.13, 24.95, 24.44, 23.77),
    "mhe": (36.84, 30.05, 26.75, 24.05, 23.14, 22.36),
    "hs-mhe": (35.16, 29.33, 25.96, 23.38, 21.83, 21.22),
    "rp-comhe": (34.73, 28.92, 24.39, 22.44, 20.81, 20.62),
    "ap-comhe": (34.89, 29.01, 24.33, 22.6, 20.72, 20.50),
}

TABLES = (
    Table(
        "thesis.table6.4",
        "Width 16t/32t/64t of CNN-9 on CIFAR-100",
        "error",
        grid(table6_4, {f"t{t}": t for t in (1, 2, 4, 8, 16, 20)}, ERROR),
    ),
)
