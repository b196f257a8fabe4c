"""The losses that are compared, and the table of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from ...train import Config, LossConfig
from ..protocols import edit
from ..table import Cell, Table

__all__ = ["LOSSES", "compared"]

# Margins, scales and weights are the published ones; the λ of A-Softmax is SphereFace's schedule (thesis A.7).
LOSSES: dict[str, dict[str, Any]] = {
    "softmax": {"name": "softmax"},
    "contrastive": {"name": "softmax", "contrastive": 0.05},
    "triplet": {"name": "triplet"},
    "center": {"name": "softmax", "center": 0.003},
    "a-softmax": {"name": "a_softmax", "margin": 4, "annealing": "sphereface"},
    "cosface": {"name": "am_softmax", "margin": 0.35, "scale": 30.0},
    "arcface": {"name": "arcface", "margin": 0.5, "scale": 30.0},
    "sphereface+": {"name": "a_softmax", "margin": 4, "annealing": "sphereface", "energy": 1.0},
}


_PAIRS = ("contrastive", "triplet")  # compare samples of a batch


def compared(name: str, title: str, make: Callable[[], Config], note: str, per_class: int) -> Table:
    """A table with a cell for each loss; everything else is ``make()``.

    For losses that compare samples, ``per_class`` of a class stand together in a batch.
    """
    cells = tuple(Cell(loss, partial(_with_loss, make, loss, per_class), None) for loss in LOSSES)
    return Table(name, title, "accuracy", cells, note)


def _with_loss(make: Callable[[], Config], loss: str, per_class: int) -> Config:
    config = replace(make(), loss=LossConfig(**LOSSES[loss]))
    return edit(config, data={"per_class": per_class}) if loss in _PAIRS else config
