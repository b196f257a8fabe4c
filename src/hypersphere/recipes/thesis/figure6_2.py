"""Thesis Figures 6.2, E.6 and E.7: energy during training, in all and by layer; CNN-9 on CIFAR-100.

Energies are in the log of a run (``hs.plots.energy_curves``, ``hs.plots.layer_energies``). Five seeds, one start.
"""

from __future__ import annotations

from functools import partial

from ..table import Cell, Table
from ._chapter6 import network

__all__ = ["TABLES"]

TABLES = (
    Table(
        "thesis.figure6.2",
        "Energy during training, CNN-9 on CIFAR-100 (Figures 6.2, E.6, E.7: curves; errors are those of Table 6.1)",
        "error",
        tuple(
            Cell(kind, partial(network, kind), value)
            for kind, value in (
                ("baseline", 28.03),
                ("orthogonal", 27.01),
                ("hs-mhe", 25.96),
                ("rp-comhe", 24.39),
                ("ap-comhe", 24.33),
            )
        ),
    ),
)
