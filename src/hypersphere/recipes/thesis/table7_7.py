"""Thesis Table 7.7: neurons of length 1 under OPT, CNN-6 on CIFAR-100."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..protocols import edit, spherical
from ..table import Table
from ._chapter7 import cnn

__all__ = ["TABLES", "table7_7"]


def table7_7(method: str, normalize: bool) -> Config:
    """CNN-6 with OPT; neurons as drawn, or normalised.

    An orthogonal R keeps normalised neurons at length 1 throughout, so the normalised baseline computes with w/‖w‖
    throughout (the text does not say how it was made).
    """
    if method != "baseline":
        return cnn(method, normalize=normalize)
    config = cnn(method)
    rule = {"conv": "decoupled", "magnitude": "linear", "angular": "cosine"}
    return spherical(edit(config, model=rule)) if normalize else config


ERROR = {
    "baseline": (37.59, 36.05),
    "gs": (33.02, 32.54),
    "hr": (35.67, 35.30),
    "ls": (34.48, 32.11),
    "cp": (33.53, 32.49),
    "ogd": (33.37, 32.70),
    "or": (34.70, 33.27),
}

TABLES = (
    Table(
        "thesis.table7.7",
        "Normalised neurons, CNN-6 on CIFAR-100",
        "error",
        grid(table7_7, {"plain": False, "norm": True}, ERROR),
    ),
)
