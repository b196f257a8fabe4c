"""Thesis Figure 5.4 (and D.4): 2-D features of MNIST with 100 images of digit 0; the accuracies are from sec. 5.5.1.

The picture is ``hs.plots.features_2d`` of the trained network; the cells train it.
"""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import edit
from ..table import Cell, Table
from ._chapter5 import REGULARIZERS
from ._mnist2d import mnist2d

__all__ = ["TABLES", "figure5_4"]


def figure5_4(kind: str) -> Config:
    """The 6-layer CNN with 2-D features, all but 100 images of digit 0 thrown away."""
    return edit(REGULARIZERS[kind](mnist2d()), data={"imbalance": "digit0"})


TABLES = (
    Table(
        "thesis.figure5.4",
        "MNIST with 100 images of digit 0, 2-D features (Figure 5.4, sec. 5.5.1)",
        "accuracy",
        (
            Cell("baseline", partial(figure5_4, "baseline"), 88.5),
            Cell("mhe", partial(figure5_4, "mhe"), 98.0),
        ),
    ),
)
