"""Thesis Table F.5: block-diagonal R with independent blocks, CNN-6 on CIFAR-100."""

from __future__ import annotations

from ..table import Table
from ._chapter7 import blocks

__all__ = ["TABLES"]

ERROR = {
    1: (33.53, 33.02, 35.67, 34.48, 33.33),
    2: (33.54, 33.15, 35.65, 34.09, 34.27),
    4: (34.77, 34.50, 35.71, 34.96, 35.97),
    8: (37.25, 36.43, 36.40, 36.17, 39.75),
    16: (40.74, 39.89, 39.98, 39.93, 43.43),
    32: (45.36, 44.77, 44.83, 44.61, 48.98),
    64: (50.94, 49.16, 49.57, 49.23, 54.93),
}

TABLES = (Table("thesis.tableF.5", "Block-diagonal R, blocks independent; CNN-6", "error", blocks(ERROR, False)),)
