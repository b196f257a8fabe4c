"""Thesis Table 4.7: CNN-9 on CIFAR-10 under white-box attacks, naturally and adversarially trained; accuracy."""

from __future__ import annotations

from functools import partial

from ..table import Cell, Table
from ._attacks import OPERATORS, attacked

__all__ = ["TABLES"]

# training → attack → accuracy of baseline, SphereConv, BallConv, TanhConv
ACCURACY = {
    "natural": {
        "none": (85.35, 88.58, 91.13, 91.45),
        "fgsm": (18.82, 43.64, 50.47, 52.60),
        "bim": (8.67, 8.89, 7.74, 10.18),
    },
    "fgsm": {
        "none": (83.70, 87.41, 87.47, 87.54),
        "fgsm": (78.96, 85.98, 82.20, 81.46),
        "bim": (7.96, 35.07, 17.38, 19.86),
    },
}

TABLES = (
    Table(
        "thesis.table4.7",
        "White-box attacks on CNN-9, CIFAR-10",
        "accuracy",
        tuple(
            Cell(
                f"{operator}.{training}.{attack}",
                partial(attacked, operator, training, ("fgsm", "bim")),
                value,
                measure="accuracy" if attack == "none" else f"{attack}_accuracy",
                run=f"{operator}.{training}",
            )
            for training, attacks in ACCURACY.items()
            for attack, values in attacks.items()
            for operator, value in zip(OPERATORS, values, strict=True)
        ),
        "Cells are operator.training.attack.",
    ),
)
