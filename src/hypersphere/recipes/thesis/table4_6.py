"""Thesis Table 4.6: decoupled ResNet-18, standard and modified, on ImageNet; centre-crop top-5 error."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import IMAGENET, edit, imagenet40, spherical, with_top5
from ..table import Cell, Table

__all__ = ["TABLES", "table4_6"]


def table4_6(magnitude: str, network: str) -> Config:
    """Table C.1's ResNet-18 (``standard``, ``modified``, or ``modified-no-bn``): cosine, projection, batch 40.

    Decoupled standard networks start from the trained baseline (4.4.3).
    """
    name = "resnet18" if network == "standard" else "resnet18_modified"
    config = with_top5(imagenet40(name, norm="off" if network.endswith("no-bn") else None))
    if magnitude == "baseline":
        return config
    rule = {"conv": "decoupled", "magnitude": magnitude, "angular": "cosine"}
    if network == "standard":
        rule["start"] = "thesis.table4.6.baseline.standard"
    return spherical(edit(config, model=rule, regularizer={"name": "orthogonal", "weight": 1e-5}))


NETWORKS = ("standard", "modified", "modified-no-bn")
ERROR: dict[str, tuple[float | None, ...]] = {
    "baseline": (12.63, 12.10, None),
    "sphere": (12.68, 11.55, 13.30),
    "linear": (11.99, 11.50, None),
    "tanh": (12.47, 11.10, 12.79),
}

TABLES = (
    Table(
        "thesis.table4.6",
        "ResNet-18 on ImageNet, top-5 (none: not converged)",
        "error",
        tuple(
            Cell(f"{kind}.{network}", partial(table4_6, kind, network), value, measure="top5_accuracy")
            for kind, row in ERROR.items()
            for network, value in zip(NETWORKS, row, strict=True)
        ),
        f"{IMAGENET}; `baseline.standard` comes first: the other standard networks start from it.",
    ),
)
