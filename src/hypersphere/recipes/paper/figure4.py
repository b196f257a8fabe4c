"""Paper Figure 4 (thesis Figure 3.4): histogram of the learned k of Conv1.1, Conv2.1 and Conv3.1.

The picture is ``hs.plots.learned_k`` of the trained network; the cell trains it.
"""

from __future__ import annotations

from ..table import Cell, Table
from .section4_3 import learnable

__all__ = ["TABLES"]

TABLES = (
    Table(
        "paper.figure4",
        "Learnable SphereNet whose k are drawn (paper Figure 4: histogram; accuracy from sec. 4.3)",
        "accuracy",
        (Cell("learnable", learnable, 91.64),),
        "The same training as paper.section4.3; hs.plots.learned_k draws the histogram of the trained network.",
    ),
)
