"""Thesis Figures 7.3 and F.2: energy (in all and by layer) and testing error over iterations, CNN-6 on CIFAR-100.

Energies are in the log of a run (``hs.plots.energy_curves``, ``hs.plots.layer_energies``). Ten seeds.
"""

from __future__ import annotations

from functools import partial

from ..table import Cell, Table
from ._chapter7 import cnn

__all__ = ["TABLES"]

TABLES = (
    Table(
        "thesis.figure7.3",
        "Energy and error during training, CNN-6 on CIFAR-100 (Figures 7.3, F.2: curves; errors of Table 7.4)",
        "error",
        tuple(
            Cell(method, partial(cnn, method), value)
            for method, value in (("baseline", 37.59), ("hs-mhe", 34.97), ("gs", 33.02), ("cp", 33.53), ("or", 34.70))
        ),
    ),
)
