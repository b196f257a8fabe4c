"""Thesis Table 7.12: OPT of PointNet (without T-Net) on ModelNet40."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import points
from ..table import Cell, Table
from ._chapter7 import opt

__all__ = ["TABLES", "table7_12"]


def table7_12(method: str) -> Config:
    """PointNet without T-Net."""
    return opt(points("pointnet"), method)


ACCURACY = {"baseline": 87.1, "gs": 87.23, "cp": 87.86}

TABLES = (
    Table(
        "thesis.table7.12",
        "PointNet without T-Net on ModelNet40",
        "accuracy",
        tuple(Cell(method, partial(table7_12, method), value) for method, value in ACCURACY.items()),
    ),
)
