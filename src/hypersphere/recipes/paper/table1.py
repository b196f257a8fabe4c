"""Paper Table 1 (thesis Table 3.1): operators and losses, CNN-9 on CIFAR-10."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..protocols import adam, operator
from ..table import Table
from ._losses import LOSSES, with_loss

__all__ = ["TABLES", "table1"]


def table1(conv: str, loss: str) -> Config:
    """CNN-9 on CIFAR-10: an operator and a loss."""
    return with_loss(operator(adam("cifar10"), conv), loss)


ACCURACY = {
    "sigmoid0.1": (90.97, 90.91, 90.89, 90.88, 91.07, 91.13, 91.87, 91.99),
    "sigmoid0.3": (91.08, 91.44, 91.37, 91.21, 91.34, 91.28, 92.13, 92.38),
    "sigmoid0.7": (91.05, 91.16, 91.47, 91.07, 90.99, 91.18, 92.22, 92.36),
    "linear": (91.10, 90.93, 91.42, 90.96, 90.95, 91.24, 92.21, 92.32),
    "cosine": (90.89, 90.88, 91.08, 91.22, 91.17, 90.99, 91.94, 92.19),
    "original": (90.58, 90.58, 90.73, 90.78, 91.08, 90.68, 91.78, 91.80),
}

TABLES = (
    Table(
        "paper.table1",
        "CNN-9 on CIFAR-10, operators and losses (paper Table 1, thesis Table 3.1)",
        "accuracy",
        grid(table1, LOSSES.keys(), ACCURACY),
    ),
)
