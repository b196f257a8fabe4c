"""Thesis chapter 2: L-Softmax on MNIST and CIFAR (Tables 2.2-2.4)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..train import Config, LossConfig
from .protocols import lsoftmax
from .table import Cell, Table

__all__ = ["TABLES", "l_softmax"]

NETWORKS = {"mnist": "lsoftmax_mnist", "cifar10": "lsoftmax_cifar10", "cifar100": "lsoftmax_cifar100"}
# λ of the authors' released code: of MNIST, CIFAR-10 and CIFAR-10+; CIFAR-100 takes the last
ANNEALING = {"mnist": "l_softmax_mnist", "cifar10": "l_softmax_cifar10", "cifar10+": "l_softmax_cifar10+"}


def l_softmax(dataset: str, margin: int) -> Config:
    """Table 2.1's network for the data set; margin 1 is the softmax."""
    name = dataset.removesuffix("+")
    config = lsoftmax(name, NETWORKS[name], augment=dataset.endswith("+"))
    if margin == 1:
        return replace(config, loss=LossConfig(name="softmax"))
    annealing = ANNEALING.get(dataset, "l_softmax_cifar10+")
    return replace(config, loss=LossConfig(name="l_softmax", margin=margin, annealing=annealing))


def _cells(prefix: str, dataset: str, values: tuple[float, ...]) -> list[Cell]:
    names = ("softmax", "m2", "m3", "m4")
    rows = enumerate(zip(names, values, strict=True), start=1)
    return [Cell(f"{prefix}{name}", partial(l_softmax, dataset, m), value) for m, (name, value) in rows]


TABLES = (
    Table(
        "thesis.table2.2",
        "L-Softmax on MNIST",
        "error",
        tuple(_cells("", "mnist", (0.40, 0.32, 0.31, 0.31))),
    ),
    Table(
        "thesis.table2.3",
        "L-Softmax on CIFAR-10 and CIFAR-10+",
        "error",
        (
            *_cells("cifar10.", "cifar10", (9.05, 7.73, 7.66, 7.58)),
            *_cells("cifar10+.", "cifar10+", (6.50, 6.01, 5.94, 5.92)),
        ),
    ),
    Table(
        "thesis.table2.4",
        "L-Softmax on CIFAR-100",
        "error",
        tuple(_cells("", "cifar100", (32.74, 29.95, 29.87, 29.53))),
    ),
)
