"""Thesis Table E.4: steps between new random projections of CoMHE, CNN-9 on CIFAR-100."""

from __future__ import annotations

from functools import partial

from ..table import Cell, Table
from ._chapter6 import projected

__all__ = ["TABLES"]

ERROR = {1: 24.6, 200: 24.84, 1000: 24.62, None: 26.09}  # None: never

TABLES = (
    Table(
        "thesis.tableE.4",
        "Steps between new random projections (20 of 30 dimensions), CNN-9 on CIFAR-100",
        "error",
        tuple(
            Cell(f"every{every or '-never'}", partial(projected, "rp-comhe", count=20, refresh=every), value)
            for every, value in ERROR.items()
        ),
    ),
)
