"""Thesis Table 7.4: OPT variants, CNN-6 and CNN-9 on CIFAR-100."""

from __future__ import annotations

from .._grid import grid
from ..table import Table
from ._chapter7 import cnn

__all__ = ["TABLES"]

ERROR = {
    "baseline": (37.59, 33.55),
    "hs-mhe": (34.97, 32.87),
    "gs": (33.02, 31.03),
    "hr": (35.67, 32.75),
    "ls": (34.48, 31.22),
    "cp": (33.53, 31.28),
    "ogd": (33.33, 31.47),
    "or": (34.70, 32.63),
}

TABLES = (
    Table(
        "thesis.table7.4",
        "OPT variants on CIFAR-100",
        "error",
        grid(cnn, ("cnn6", "cnn9"), ERROR),
        "OGD on CNN-6 is 33.33 here and 33.37 in Table 7.7.",
    ),
)
