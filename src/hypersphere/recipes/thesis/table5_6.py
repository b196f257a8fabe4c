"""Thesis Table 5.6: ResNets with MHE on ImageNet."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..protocols import IMAGENET, imagenet
from ..table import Table
from ._chapter5 import REGULARIZERS

__all__ = ["TABLES", "table5_6"]


def table5_6(kind: str, name: str) -> Config:
    """A ResNet on ImageNet with a regularizer."""
    return REGULARIZERS[kind](imagenet(name))


ERROR = {
    "baseline": (32.95, 30.04),
    "orthogonal": (32.65, 29.74),
    "orthonormal": (32.61, 29.75),
    "mhe": (32.50, 29.60),
    "half-mhe": (32.45, 29.50),
}

TABLES = (
    Table(
        "thesis.table5.6",
        "ResNets on ImageNet, top-1",
        "error",
        grid(table5_6, ("resnet18", "resnet34"), ERROR),
        IMAGENET,
    ),
)
