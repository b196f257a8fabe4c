"""Thesis Figure 2.2: 2-D features of MNIST by the margin of L-Softmax; no numbers.

The picture is ``hs.plots.features_2d`` of the trained network; the cells train it.
"""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import edit
from ..table import Cell, Table
from ._chapter2 import l_softmax

__all__ = ["TABLES", "figure2_2"]


def figure2_2(margin: int) -> Config:
    """Table 2.2's training with the network of Table 2.1 whose embedding has 2 dimensions."""
    return edit(l_softmax("mnist", margin), model={"name": "lsoftmax_mnist2d"})


TABLES = (
    Table(
        "thesis.figure2.2",
        "2-D features on MNIST by margin (Figure 2.2: pictures, no numbers)",
        "error",
        tuple(
            Cell(name, partial(figure2_2, margin), None)
            for name, margin in (("softmax", 1), ("m2", 2), ("m3", 3), ("m4", 4))
        ),
    ),
)
