"""Thesis Table 6.6: ResNet-32 with CoMHE on CIFAR-10 and CIFAR-100."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..table import Table
from ._chapter6 import network

__all__ = ["TABLES", "table6_6"]


def table6_6(kind: str, dataset: str) -> Config:
    """Table E.2's ResNet-32, which is that of Table D.2."""
    return network(kind, dataset, "resnet32", "d2")


ERROR = {
    "baseline": (5.19, 22.87),
    "orthogonal": (5.02, 22.36),
    "srip": (4.75, 22.08),
    "mhe": (4.72, 22.19),
    "hs-mhe": (4.66, 22.04),
    "rp-comhe": (4.59, 21.82),
    "ap-comhe": (4.57, 21.63),
}

TABLES = (
    Table(
        "thesis.table6.6",
        "ResNet-32 on CIFAR-10 and CIFAR-100",
        "error",
        grid(table6_6, ("cifar10", "cifar100"), ERROR),
    ),
)
