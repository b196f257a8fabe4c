"""Paper Figure 3 (thesis Figure 3.3): testing accuracy over iterations on CIFAR-10; curves without numbers.

The operators and widths of the curves are not in the text, but for the narrowest width and for panel (d).
"""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import adam, operator, orthonormal
from ..table import Cell, Table
from .table2 import table2

__all__ = ["TABLES", "panel_a", "panel_b", "panel_c"]


def panel_a(conv: str, dataset: str) -> Config:
    """ResNet-32 of Table 2, softmax; sigmoid(0.3) is the best operator there."""
    return operator(adam(dataset, "resnet32"), conv)


def panel_b(conv: str, orthogonal: bool) -> Config:
    """CNN-9, softmax, with and without the orthogonality constraint."""
    config = operator(adam("cifar10"), conv)
    return orthonormal(config) if orthogonal else config


def panel_c(conv: str, widths: str) -> Config:
    """CNN-9 with filters by stage, softmax."""
    return operator(adam("cifar10", widths=widths.replace("-", ",")), conv)


TABLES = (
    Table(
        "paper.figure3a",
        "ResNet-32 and SphereResNet-32 over iterations (paper Figure 3(a): curves, no numbers)",
        "accuracy",
        tuple(
            Cell(f"{conv}.{dataset}", partial(panel_a, conv, dataset), None)
            for conv in ("original", "sigmoid0.3")
            for dataset in ("cifar10", "cifar10+")
        ),
    ),
    Table(
        "paper.figure3b",
        "CNN-9 and SphereNet over iterations, orthogonality (paper Figure 3(b): curves, no numbers)",
        "accuracy",
        (
            Cell("original", partial(panel_b, "original", False), None),
            *(
                Cell(f"{conv}{'.orthogonal' if orthogonal else ''}", partial(panel_b, conv, orthogonal), None)
                for conv in ("cosine", "linear", "sigmoid0.3")
                for orthogonal in (False, True)
            ),
        ),
    ),
    Table(
        "paper.figure3c",
        "Width of CNN-9 and SphereNet over iterations (paper Figure 3(c): curves, no numbers)",
        "accuracy",
        tuple(
            Cell(f"{conv}.{widths}", partial(panel_c, conv, widths), None)
            for conv in ("original", "cosine")
            for widths in ("16-32-48", "32-64-96", "64-96-128", "128-192-256")
        ),
    ),
    Table(
        "paper.figure3d",
        "CNN-69 and its SphereNet over iterations (paper Figure 3(d): curves)",
        "accuracy",
        tuple(Cell(conv, partial(table2, conv, "cnn69"), None) for conv in ("original", "cosine")),
        'The text gives "nearly 90%" for the SphereNet.',
    ),
)
