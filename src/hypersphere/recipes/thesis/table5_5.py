"""Thesis Table 5.5: ResNet-32 with MHE on CIFAR-10 and CIFAR-100."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..table import Table
from ._chapter5 import network

__all__ = ["TABLES", "table5_5"]


def table5_5(kind: str, dataset: str) -> Config:
    """Table D.2's ResNet-32."""
    return network(kind, dataset, "resnet32", "d2")


ERROR = {"baseline": (5.19, 22.87), "mhe": (4.72, 22.19), "half-mhe": (4.66, 22.04)}

TABLES = (
    Table(
        "thesis.table5.5",
        "ResNet-32 on CIFAR-10 and CIFAR-100",
        "error",
        grid(table5_5, ("cifar10", "cifar100"), ERROR),
    ),
)
