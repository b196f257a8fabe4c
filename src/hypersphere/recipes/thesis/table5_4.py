"""Thesis Table 5.4: energy of hidden layers, of the output layer, or of both; CNN-9 on CIFAR-100."""

from __future__ import annotations

from functools import partial

from ...train import Config
from .._grid import grid
from ..protocols import edit
from ..table import Cell, Table
from ._chapter5 import network

__all__ = ["TABLES", "table5_4"]


def table5_4(kind: str, where: str) -> Config:
    """The energy of ``hidden`` layers, of the ``output`` layer, or of ``both``."""
    weights = {"hidden": 0.0} if where == "output" else {}
    return edit(network(kind), regularizer={**weights, "output": 0.0 if where == "hidden" else 1.0})


ERROR: dict[str, tuple[float | None, ...]] = {
    "mhe": (26.85, 26.55, 26.16),
    "half-mhe": (None, 26.28, 25.61),
    "a-mhe": (27.8, 26.56, 26.17),
    "half-a-mhe": (None, 26.64, 26.03),
}
WHERE = ("output", "hidden", "both")

TABLES = (
    Table(
        "thesis.table5.4",
        "Hidden and output layers, CNN-9 on CIFAR-100",
        "error",
        (
            # the half-space kinds are for hidden layers: the table has no number for them on the output layer alone
            *(cell for cell in grid(table5_4, WHERE, ERROR) if cell.published is not None),
            Cell("baseline", partial(network, "baseline"), 28.13),
        ),
    ),
)
