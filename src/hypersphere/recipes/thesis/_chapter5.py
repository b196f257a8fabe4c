"""Chapter 5's minimum hyperspherical energy: its regularizers, and the networks they are tried on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ...train import Config
from .._grid import grid
from ..protocols import edit, mhe, sgd
from ..table import Cell

__all__ = ["REGULARIZERS", "imbalance", "network", "powers"]

# baseline or a kind of MHE, applied to a configuration
REGULARIZERS: dict[str, Callable[..., Config]] = {
    "baseline": lambda config, s=2.0: config,
    "orthonormal": lambda config, s=2.0: edit(config, regularizer={"name": "orthonormal", "weight": 1e-5}),
    "orthogonal": lambda config, s=2.0: edit(config, regularizer={"name": "orthogonal", "weight": 1e-5}),
    "mhe": lambda config, s=2.0: mhe(config, s=s),
    "half-mhe": lambda config, s=2.0: mhe(config, True, s),
    "a-mhe": lambda config, s=2.0: mhe(config, False, s, angular=True),
    "half-a-mhe": lambda config, s=2.0: mhe(config, True, s, angular=True),
}
Powers = dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]]


def network(kind: str, dataset: str = "cifar100", name: str = "cnn9", widths: str = "d1", s: float = 2.0) -> Config:
    """A network of D.1 with a regularizer."""
    return REGULARIZERS[kind](sgd(dataset, name, widths), s)


def powers(make: Callable[..., Config], rows: Powers) -> tuple[Cell, ...]:
    """Cells ``kind.s2.cifar10``; a row has s = 2, 1, 0 of CIFAR-10, then of CIFAR-100."""
    return tuple(
        Cell(f"{kind}.s{s}.{dataset}", partial(make, kind, dataset, s=float(s)), value)
        for kind, both in rows.items()
        for dataset, values in zip(("cifar10", "cifar100"), both, strict=True)
        for s, value in zip((2, 1, 0), values, strict=True)
    )


def imbalance(dataset: str, rows: dict[str, tuple[float, float]]) -> tuple[Cell, ...]:
    """5.5.1, D.8: CNN-9 on a training set that lacks samples of one class, or of more and more."""

    def make(kind: str, how: str) -> Config:
        return edit(network(kind, dataset), data={"imbalance": how}, evaluation={"also": ("classes",)})

    return grid(make, ("single", "multiple"), rows)
