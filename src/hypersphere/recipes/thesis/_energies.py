"""Section E.2: how the energy is kept low, and what it does to the error. Curves, no numbers."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import comhe, edit, mhe, sgd
from ..table import Cell, Table
from ._chapter7 import opt

__all__ = ["energies", "strategy"]

STRATEGIES = ("standard", "rotation", "hs-mhe", "rp-comhe", "ap-comhe")


def strategy(kind: str, dataset: str, name: str, norm: str | None) -> Config:
    """A small CNN of Table E.3; half-space energy with s = 1 (E.2). Rotation is OPT by Gram-Schmidt, without decay."""
    config = sgd(dataset, name, "e3", norm=norm)
    match kind:
        case "standard":
            return config
        case "rotation":
            return opt(edit(config, optim={"weight_decay": 0.0}), "gs")
        case "hs-mhe":
            return mhe(config, half=True, s=1.0)
        case "rp-comhe":
            return comhe(config, "random", s=1.0)
        case _:
            return comhe(config, "angle_preserving", s=1.0, extra={"unroll": 1})


def energies(figure: str, dataset: str, name: str = "cnn9", norm: str | None = None) -> Table:
    """The strategies on one network and data set."""
    network = f"{name.upper().replace('CNN', 'CNN-')}{' without BatchNorm' if norm == 'off' else ''}"
    return Table(
        f"thesis.figure{figure}",
        f"Energy and error of training strategies, {network} on {dataset.upper().replace('CIFAR', 'CIFAR-')} "
        f"(Figure {figure}: curves, no numbers)",
        "error",
        tuple(Cell(kind, partial(strategy, kind, dataset, name, norm), None) for kind in STRATEGIES),
    )
