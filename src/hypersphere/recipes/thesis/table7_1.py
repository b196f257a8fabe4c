"""Thesis Table 7.1: is orthogonality needed, must the neurons be fixed? CNN-6 and CNN-9 on CIFAR-100."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..table import Table
from ._chapter7 import cnn

__all__ = ["TABLES", "table7_1"]


def table7_1(kind: str, network: str) -> Config:
    """OPT by Gram-Schmidt, or a matrix without constraint (UPT); with fixed or learned neurons."""
    if kind == "baseline":
        return cnn(kind, network)
    method, neurons = kind.split("-")
    return cnn({"upt": "upt", "opt": "gs"}[method], network, learn_v=neurons == "learned")


ERROR = {
    "baseline": (37.59, 33.55),
    "upt-learned": (48.47, 46.72),
    "upt-fixed": (42.61, 39.38),
    "opt-learned": (37.24, 32.95),
    "opt-fixed": (33.02, 31.03),
}

TABLES = (
    Table(
        "thesis.table7.1",
        "Orthogonality and fixed neurons on CIFAR-100",
        "error",
        grid(table7_1, ("cnn6", "cnn9"), ERROR),
    ),
)
