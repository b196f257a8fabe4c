"""Thesis Table 6.3: number of projections, CNN-9 on CIFAR-100."""

from __future__ import annotations

from functools import partial

from ..table import Cell, Table
from ._chapter6 import projected

__all__ = ["TABLES"]

ERROR = {  # by number of projections: random, angle-preserving
    1: (25.11, 24.33),
    5: (24.39, 24.34),
    10: (25.11, 24.36),
    20: (24.60, 24.38),
    30: (24.82, 24.52),
    80: (24.92, 24.56),
}

TABLES = (
    Table(
        "thesis.table6.3",
        "Number of projections, CNN-9 on CIFAR-100",
        "error",
        tuple(
            Cell(f"{kind}.count{count}", partial(projected, kind, count=count), value)
            for count, row in ERROR.items()
            for kind, value in zip(("rp-comhe", "ap-comhe"), row, strict=True)
        ),
    ),
)
