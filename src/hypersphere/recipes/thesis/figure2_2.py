"""Thesis Figure 2.2: 2-D features of MNIST by the margin of L-Softmax; no numbers.

The picture is ``hs.plots.features_2d`` of the trained network; the cells train it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...train import Config
from ..table import Cell, Table
from ._chapter2 import l_softmax
from ._mnist2d import mnist2d

__all__ = ["TABLES", "figure2_2"]


def figure2_2(margin: int) -> Config:
    """The network of Table 2.1 whose embedding has 2 dimensions; the loss and λ of Table 2.2.

    At the rate of Table 2.2 the features, which nothing normalises, diverge.
    """
    return replace(mnist2d("lsoftmax_mnist2d"), loss=l_softmax("mnist", margin).loss)


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
