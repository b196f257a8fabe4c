"""Thesis Table D.3: SphereNet with MHE, CNN-9 on CIFAR-10 and CIFAR-100."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import operator, sgd
from ..table import Cell, Table
from ._chapter5 import REGULARIZERS, powers

__all__ = ["TABLES", "tableD_3"]


def tableD_3(kind: str, dataset: str, s: float = 2.0) -> Config:
    """D.5: CNN-9 of cosine SphereConvs, weight projection, a regularizer."""
    return REGULARIZERS[kind](operator(sgd(dataset), "cosine"), s)


ERROR = {  # s = 2, 1, 0 on CIFAR-10; on CIFAR-100
    "mhe": ((5.71, 5.99, 5.95), (27.28, 26.99, 27.03)),
    "half-mhe": ((6.12, 6.33, 6.31), (27.17, 27.77, 27.46)),
    "a-mhe": ((5.91, 5.98, 6.06), (27.07, 27.27, 26.70)),
    "half-a-mhe": ((6.14, 5.87, 6.11), (27.35, 27.68, 27.58)),
}

TABLES = (
    Table(
        "thesis.tableD.3",
        "SphereNet with MHE, CNN-9",
        "error",
        (
            Cell("baseline.cifar10", partial(tableD_3, "baseline", "cifar10"), 6.37),
            Cell("baseline.cifar100", partial(tableD_3, "baseline", "cifar100"), 28.10),
            Cell("orthonormal.cifar10", partial(tableD_3, "orthonormal", "cifar10"), 6.13),
            Cell("orthonormal.cifar100", partial(tableD_3, "orthonormal", "cifar100"), 27.95),
            *powers(tableD_3, ERROR),
        ),
    ),
)
