"""Paper Table 2 (thesis Table 3.2): operators in networks of different depth, on CIFAR-10."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..protocols import adam, operator
from ..table import Table
from ._losses import with_loss

__all__ = ["TABLES", "table2"]


def table2(conv: str, network: str) -> Config:
    """Networks of different depth on CIFAR-10: cosine W-Softmax for SphereConvs, softmax for the original."""
    return with_loss(operator(adam("cifar10", network), conv), "softmax" if conv == "original" else "w-cosine")


NETWORKS = ("cnn3", "cnn9", "cnn18", "cnn45", "cnn60", "resnet32")
ACCURACY = {
    "sigmoid0.1": (82.08, 91.13, 91.43, 89.34, 87.67, 90.94),
    "sigmoid0.3": (81.92, 91.28, 91.55, 89.73, 87.85, 91.7),
    "sigmoid0.7": (82.4, 91.18, 91.69, 89.85, 88.42, 91.19),
    "linear": (82.31, 91.15, 91.24, 90.15, 89.91, 91.25),
    "cosine": (82.23, 90.99, 91.23, 90.05, 89.28, 91.38),
    "original": (81.19, 90.68, 90.62, 88.23, 88.15, 90.40),
}

TABLES = (
    Table(
        "paper.table2",
        "Architectures on CIFAR-10 (paper Table 2, thesis Table 3.2)",
        "accuracy",
        grid(table2, NETWORKS, ACCURACY),
        "CNN-9 differs from Table 1 in places: 90.68 here, 90.58 there.",
    ),
)
