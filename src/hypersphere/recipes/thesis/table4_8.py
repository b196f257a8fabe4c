"""Thesis Table 4.8: CNN-9 on CIFAR-10 under attacks that were made on another network; accuracy."""

from __future__ import annotations

from functools import partial

from ..table import Cell, Table
from ._attacks import OPERATORS, attacked

__all__ = ["TABLES"]

SOURCE = "thesis.table4.8.source"  # a baseline of its own: train it first, under another seed than the judged ones
# training → attack → accuracy of baseline, SphereConv, BallConv, TanhConv; without attack as in Table 4.7
ACCURACY = {
    "natural": {"fgsm": (50.90, 56.71, 49.50, 50.61), "bim": (36.22, 43.10, 27.48, 29.06)},
    "fgsm": {"fgsm": (77.57, 76.29, 78.67, 80.38), "bim": (78.55, 77.79, 80.59, 82.47)},
}

TABLES = (
    Table(
        "thesis.table4.8",
        "Black-box attacks on CNN-9, CIFAR-10, made on a naturally trained baseline",
        "accuracy",
        (
            Cell("source", partial(attacked, "baseline", "natural", ()), None),
            *(
                Cell(
                    f"{operator}.{training}.{attack}",
                    partial(attacked, operator, training, ("fgsm_transfer", "bim_transfer"), SOURCE),
                    value,
                    measure=f"{attack}_transfer_accuracy",
                    run=f"{operator}.{training}",
                )
                for training, attacks in ACCURACY.items()
                for attack, values in attacks.items()
                for operator, value in zip(OPERATORS, values, strict=True)
            ),
        ),
        "Cells are operator.training.attack; `source` is the network that the attacks are made on: give it a seed that "
        "no other cell has, e.g. --cells source --seeds 100.",
    ),
)
