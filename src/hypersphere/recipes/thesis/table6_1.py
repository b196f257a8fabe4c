"""Thesis Table 6.1: CoMHE variants, CNN-9 on CIFAR-100."""

from __future__ import annotations

from functools import partial

from ..table import Cell, Table
from ._chapter6 import network

__all__ = ["TABLES"]

ERROR = {
    "baseline": 28.03,
    "orthogonal": 27.01,
    "srip": 25.80,
    "mhe": 26.75,
    "hs-mhe": 25.96,
    "g-comhe": 25.08,
    "adv-comhe": 25.09,
    "rp-comhe": 24.39,
    "rp-comhe-max": 24.77,
    "ap-comhe-alter": 24.95,
    "ap-comhe": 24.33,
}

TABLES = (
    Table(
        "thesis.table6.1",
        "CoMHE variants, CNN-9 on CIFAR-100",
        "error",
        tuple(Cell(kind, partial(network, kind), value) for kind, value in ERROR.items()),
    ),
)
