"""Paper section 4.3 (thesis 3.4.3): the learnable sigmoid SphereConv, CNN-9 on CIFAR-10."""

from __future__ import annotations

from ...train import Config
from ..table import Cell, Table
from .table1 import table1

__all__ = ["TABLES", "learnable"]


def learnable() -> Config:
    """CNN-9 with k learned for each filter, from 0.5; cosine W-Softmax."""
    return table1("learnable", "w-cosine")


TABLES = (
    Table(
        "paper.section4.3",
        "Learnable sigmoid SphereConv, k for each filter, cosine W-Softmax (paper sec. 4.3)",
        "accuracy",
        (Cell("learnable", learnable, 91.64),),
    ),
)
