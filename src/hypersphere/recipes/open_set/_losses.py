"""The losses that are compared, and the table of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ...train import Config, LossConfig
from ..table import Cell, Table

__all__ = ["LOSSES", "compared"]

# Margins and scales are the published ones; the λ of A-Softmax is SphereFace's schedule (thesis A.7).
LOSSES: dict[str, dict[str, Any]] = {
    "softmax": {"name": "softmax"},
    "a-softmax": {"name": "a_softmax", "margin": 4, "annealing": "sphereface"},
    "cosface": {"name": "am_softmax", "margin": 0.35, "scale": 30.0},
    "arcface": {"name": "arcface", "margin": 0.5, "scale": 30.0},
    "sphereface+": {"name": "a_softmax", "margin": 4, "annealing": "sphereface", "energy": 1.0},
}


def compared(name: str, title: str, make: Callable[[], Config], note: str) -> Table:
    """A table with a cell for each loss; everything else is ``make()``."""
    cells = tuple(Cell(loss, partial(_with_loss, make, loss), None) for loss in LOSSES)
    return Table(name, title, "accuracy", cells, note)


def _with_loss(make: Callable[[], Config], loss: str) -> Config:
    return replace(make(), loss=LossConfig(**LOSSES[loss]))
