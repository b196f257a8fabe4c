"""Thesis Figure 5.3: weight of MHE from 10^-2 to 10^2, CNN-9 on CIFAR-100; curves without numbers."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import edit
from ..table import Cell, Table
from ._chapter5 import network

__all__ = ["TABLES", "figure5_3"]


def figure5_3(kind: str, weight: float) -> Config:
    """MHE on the output layer (``mhe-o``), on hidden layers (``mhe-h``), or half-space on hidden layers."""
    if kind == "mhe-o":
        return edit(network("mhe"), regularizer={"hidden": 0.0, "output": weight})
    config = network("half-mhe" if kind == "half-mhe-h" else "mhe")
    return edit(config, regularizer={"hidden": weight, "output": 0.0})


TABLES = (
    Table(
        "thesis.figure5.3",
        "Weight of MHE, CNN-9 on CIFAR-100 (Figure 5.3: curves, no numbers)",
        "error",
        (
            Cell("baseline", partial(network, "baseline"), None),
            *(
                Cell(f"{kind}.weight{weight:g}", partial(figure5_3, kind, weight), None)
                for kind in ("mhe-o", "mhe-h", "half-mhe-h")
                for weight in (0.01, 0.1, 1.0, 10.0, 100.0)
            ),
        ),
    ),
)
