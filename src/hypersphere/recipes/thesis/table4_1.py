"""Thesis Table 4.1: weighted operators and optimisation aids, TanhConv in ResNet-32 on CIFAR-100."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..table import Cell, Table
from ._chapter4 import decoupled

__all__ = ["TABLES"]

ERROR: dict[str, tuple[dict[str, Any], float]] = {
    "linearly-weighted": ({"weighted": "linear"}, 22.95),
    "product-weighted": ({"weighted": "product"}, 23.03),
    "separately-weighted": ({"weighted": "separate"}, 23.38),
    "standard-gradients": ({"aid": "none"}, 23.09),
    "weight-projection": ({"aid": "projection"}, 21.17),
    "weighted-gradients": ({"aid": "gradients"}, 21.45),
}

TABLES = (
    Table(
        "thesis.table4.1",
        "Weighted operators (TanhConv, ResNet-32) on CIFAR-100",
        "error",
        tuple(
            Cell(name, partial(decoupled, "resnet32", "tanh", **settings), value)
            for name, (settings, value) in ERROR.items()
        ),
    ),
)
