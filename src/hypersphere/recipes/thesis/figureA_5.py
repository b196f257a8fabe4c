"""Thesis Figure A.5: 2-D features of MNIST by the margin of A-Softmax; no numbers.

The picture is ``hs.plots.features_2d`` of the trained network; the cells train it.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...train import Config, LossConfig
from ..table import Cell, Table
from .figure2_2 import figure2_2

__all__ = ["TABLES", "figureA_5"]


def figureA_5(margin: int) -> Config:
    """As Figure 2.2, with A-Softmax; margin 1 is the softmax."""
    loss = LossConfig(name="a_softmax", margin=margin, annealing="sphereface")
    return figure2_2(1) if margin == 1 else replace(figure2_2(1), loss=loss)


TABLES = (
    Table(
        "thesis.figureA.5",
        "2-D features on MNIST by margin of A-Softmax (Figure A.5: pictures, no numbers)",
        "error",
        tuple(
            Cell(name, partial(figureA_5, margin), None)
            for name, margin in (("softmax", 1), ("m2", 2), ("m3", 3), ("m4", 4))
        ),
    ),
)
