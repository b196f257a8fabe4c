"""Chapter 2's L-Softmax on MNIST and CIFAR."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...train import Config, LossConfig
from ..protocols import lsoftmax
from ..table import Cell

__all__ = ["l_softmax", "margins"]

NETWORKS = {"mnist": "lsoftmax_mnist", "cifar10": "lsoftmax_cifar10", "cifar100": "lsoftmax_cifar100"}
# λ of the authors' released code: of MNIST, CIFAR-10 and CIFAR-10+; CIFAR-100 takes the last
ANNEALING = {"mnist": "l_softmax_mnist", "cifar10": "l_softmax_cifar10", "cifar10+": "l_softmax_cifar10+"}


def l_softmax(dataset: str, margin: int) -> Config:
    """Table 2.1's network for the data set; margin 1 is the softmax, 0 the hinge loss, one class against the others."""
    name = dataset.removesuffix("+")
    config = lsoftmax(name, NETWORKS[name], augment=dataset.endswith("+"))
    if margin == 0:
        return replace(config, loss=LossConfig(name="hinge"))
    if margin == 1:
        return replace(config, loss=LossConfig(name="softmax"))
    annealing = ANNEALING.get(dataset, "l_softmax_cifar10+")
    return replace(config, loss=LossConfig(name="l_softmax", margin=margin, annealing=annealing))


def margins(prefix: str, dataset: str, values: tuple[float, ...]) -> tuple[Cell, ...]:
    """Cells of the hinge loss, the softmax and L-Softmax with m = 2, 3, 4."""
    rows = enumerate(zip(("hinge", "softmax", "m2", "m3", "m4"), values, strict=True))
    return tuple(Cell(f"{prefix}{name}", partial(l_softmax, dataset, m), value) for m, (name, value) in rows)
