"""Thesis Figure 4.4: convergence of decoupled ResNet-32 on CIFAR-100; curves without numbers."""

from __future__ import annotations

from functools import partial

from ..table import Cell, Table
from ._chapter4 import decoupled

__all__ = ["TABLES"]

TABLES = (
    Table(
        "thesis.figure4.4",
        "ResNet-32 over iterations on CIFAR-100 (Figure 4.4: curves; the final numbers are those of Table 4.4)",
        "error",
        (
            Cell("baseline", partial(decoupled, "resnet32", None), 26.69),
            *(
                Cell(name, partial(decoupled, "resnet32", name), value)
                for name, value in (
                    ("sphere", 21.44),
                    ("ball", 21.12),
                    ("tanh", 21.17),
                    ("linear", 22.17),
                    ("segment", 20.91),
                    ("log", 21.08),
                    ("mix", 21.28),
                )
            ),
        ),
        "With cosine, as the text names no g; which operators are drawn it does not say either.",
    ),
)
