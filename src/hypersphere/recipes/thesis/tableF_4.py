"""Thesis Table F.4: block-diagonal R whose blocks are one matrix, CNN-6 on CIFAR-100."""

from __future__ import annotations

from ..table import Table
from ._chapter7 import blocks

__all__ = ["TABLES"]

ERROR = {
    1: (33.53, 33.02, 35.67, 34.48, 33.33),
    2: (34.93, 34.39, 35.83, 34.50, 35.06),
    4: (39.40, 39.13, 39.67, 37.58, 39.80),
    8: (47.77, 46.65, 46.69, 45.62, 47.43),
    16: (56.65, 55.91, 55.69, 54.75, 57.15),
    32: (63.46, 62.65, 62.38, 61.60, 62.46),
    64: (67.36, 67.11, 67.05, 66.61, 67.23),
}

TABLES = (Table("thesis.tableF.4", "Block-diagonal R, blocks shared; CNN-6", "error", blocks(ERROR, True)),)
