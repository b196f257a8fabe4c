"""Thesis Table 5.7: MHE on imbalanced CIFAR-10, CNN-9."""

from __future__ import annotations

from dataclasses import replace

from ..table import Table
from ._chapter5 import imbalance

__all__ = ["TABLES"]

ERROR = {  # single, multiple
    "baseline": (9.80, 12.00),
    "orthonormal": (8.34, 10.80),
    "mhe": (7.98, 10.25),
    "half-mhe": (7.90, 9.59),
    "a-mhe": (7.96, 9.88),
    "half-a-mhe": (7.59, 9.89),
}

SCARCE = (30.40, 26.80, 25.80, 26.40, 26.00, 25.90)  # error of the class that lacks samples, "Err. (S)"

TABLES = (
    Table(
        "thesis.table5.7",
        "Imbalanced CIFAR-10, CNN-9; single-class also as the error of that class",
        "error",
        (
            *imbalance("cifar10", ERROR),
            *(
                replace(cell, name=f"{kind}.single-scarce", published=value, measure="class_0_accuracy", run=cell.name)
                for (kind, value), cell in zip(
                    zip(ERROR, SCARCE, strict=True), imbalance("cifar10", ERROR)[::2], strict=True
                )
            ),
        ),
    ),
)
