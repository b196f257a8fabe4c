"""Thesis Figure C.2: 2-D features of MNIST learned by decoupled operators, natural training; no numbers.

The picture is ``hs.plots.features_2d`` of the trained network; the cells train it.
"""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import edit
from ..table import Cell, Table
from ._mnist2d import mnist2d

__all__ = ["TABLES", "figureC_2"]


def figureC_2(magnitude: str | None) -> Config:
    """The CNN of C.4 with a decoupled operator and original gradients: no weight projection."""
    if magnitude is None:
        return mnist2d()
    rule = {"conv": "decoupled", "magnitude": magnitude, "angular": "cosine"}
    return edit(mnist2d(), model=rule, regularizer={"name": "orthogonal", "weight": 1e-5})


TABLES = (
    Table(
        "thesis.figureC.2",
        "2-D features on MNIST by operator (Figure C.2: pictures, no numbers)",
        "accuracy",
        (
            Cell("baseline", partial(figureC_2, None), None),
            *(
                Cell(name, partial(figureC_2, name), None)
                for name in ("sphere", "ball", "tanh", "linear", "segment", "log", "mix")
            ),
        ),
    ),
)
