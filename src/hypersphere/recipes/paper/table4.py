"""Paper Table 4 (thesis Table 3.4): ResNet-32 on CIFAR-10+ and CIFAR-100."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import adam, operator
from ..table import Cell, Table
from ._losses import with_loss

__all__ = ["TABLES", "table4"]


def table4(dataset: str, conv: str, loss: str) -> Config:
    """ResNet-32 with 96/192/384 filters on CIFAR-10+ and CIFAR-100."""
    return with_loss(operator(adam(dataset, "resnet32", "paper_wide"), conv), loss)


ACCURACY = {
    "resnet32": ("original", "softmax", 93.26, 72.85),
    "s-sw": ("sigmoid0.3", "w-sigmoid0.3", 94.47, 76.02),
    "l-lw": ("linear", "w-linear", 94.33, 75.62),
    "c-cw": ("cosine", "w-cosine", 94.64, 74.92),
    "s-g": ("sigmoid0.3", "ga-softmax", 95.01, 76.39),
}

TABLES = (
    Table(
        "paper.table4",
        "ResNet-32 on CIFAR-10+ and CIFAR-100 (paper Table 4, thesis Table 3.4)",
        "accuracy",
        tuple(
            Cell(f"{name}.{dataset}", partial(table4, dataset, conv, loss), value)
            for name, (conv, loss, *values) in ACCURACY.items()
            for dataset, value in zip(("cifar10+", "cifar100"), values, strict=True)
        ),
    ),
)
