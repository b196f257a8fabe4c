"""Thesis Table 6.2: dimension of the projection, CNN-9 on CIFAR-100."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..table import Table
from ._chapter6 import projected

__all__ = ["TABLES", "table6_2"]


def table6_2(kind: str, dim: int) -> Config:
    """Projections to ``dim`` dimensions: 20 random ones, or one learned."""
    return projected(kind, dim=dim, count=20 if kind == "rp-comhe" else None)


ERROR = {
    "rp-comhe": (25.48, 25.32, 24.60, 24.75, 25.46),
    "ap-comhe-alter": (25.21, 24.60, 24.95, 24.97, 24.99),
    "ap-comhe": (25.32, 24.59, 24.33, 24.93, 25.12),
}

TABLES = (
    Table(
        "thesis.table6.2",
        "Dimension of the projection, CNN-9 on CIFAR-100 (random: 20 projections)",
        "error",
        grid(table6_2, {f"dim{dim}": dim for dim in (10, 20, 30, 40, 80)}, ERROR),
    ),
)
