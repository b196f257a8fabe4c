"""Thesis Table 7.2: neurons that start with a mean other than 0, so with high energy; OPT, CNN-6 on CIFAR-100."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..table import Cell, Table
from ._chapter7 import cnn

__all__ = ["TABLES", "table7_2"]


def table7_2(mean: float) -> Config:
    """Cayley with normalised neurons: the text names no method, and 32.49 is that cell of Table 7.7."""
    return cnn("cp", normalize=True, mean=mean)


# mean → energy before training (sum over the layers), error
ROWS: dict[str, tuple[float, float | None]] = {
    "0": (3.5109, 32.49),
    "1e-3": (3.5117, 33.11),
    "1e-2": (3.5160, 39.51),
    "2e-2": (3.5531, 53.89),
    "3e-2": (3.6761, None),
    "5e-2": (4.2776, None),
}

TABLES = (
    Table(
        "thesis.table7.2",
        "Neurons that start with a mean, CNN-6 on CIFAR-100 (none: not converged)",
        "error",
        (
            *(Cell(f"mean{mean}", partial(table7_2, float(mean)), error) for mean, (_, error) in ROWS.items()),
            *(
                Cell(f"energy{mean}", partial(table7_2, float(mean)), energy, "", "initial_energy", f"mean{mean}")
                for mean, (energy, _) in ROWS.items()
            ),
        ),
    ),
)
