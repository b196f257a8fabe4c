"""Thesis Table 6.7: ResNets with CoMHE on ImageNet."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..protocols import IMAGENET, imagenet
from ..table import Table
from ._chapter6 import KINDS

__all__ = ["TABLES", "table6_7"]


def table6_7(kind: str, name: str) -> Config:
    """A ResNet on ImageNet with a regularizer."""
    return KINDS[kind](imagenet(name))


ERROR = {
    "baseline": (32.95, 30.04, 25.30),
    "orthogonal": (32.65, 29.74, 25.19),
    "orthonormal": (32.61, 29.75, 25.21),
    "srip": (32.53, 29.55, 24.91),
    "mhe": (32.50, 29.60, 25.02),
    "hs-mhe": (32.45, 29.50, 24.98),
    "rp-comhe": (31.90, 29.38, 24.51),
    "ap-comhe": (31.80, 29.32, 24.53),
}

TABLES = (
    Table(
        "thesis.table6.7",
        "ResNets on ImageNet, top-1",
        "error",
        grid(table6_7, ("resnet18", "resnet34", "resnet50"), ERROR),
        IMAGENET,
    ),
)
