"""Paper Figure 5 (thesis Figure 3.5): SphereNorm and BatchNorm at small batches, CNN-9 on CIFAR-10."""

from __future__ import annotations

from functools import partial

from ...train import Config
from ..protocols import adam, edit, orthonormal, spherical
from ..table import Cell, Table

__all__ = ["TABLES", "figure5"]


def figure5(batch: int, norm: str) -> Config:
    """CNN-9 with BatchNorm, SphereNorm (cosine SphereConv) or both at a small batch; softmax.

    SphereNorm also with the orthogonality constraint and rescaled (sec. 2.5).
    """
    config = edit(adam("cifar10"), data={"batch_size": batch})
    if norm == "batch":
        return config
    kind, _, extra = norm.partition("-")
    config = spherical(edit(config, model={"norm": kind, "affine": extra == "rescaled"}))
    return orthonormal(config) if extra == "orthogonal" else config


TABLES = (
    Table(
        "paper.figure5",
        "SphereNorm and BatchNorm at small batches (paper Figure 5: curves, no numbers)",
        "accuracy",
        tuple(
            Cell(f"batch{batch}.{norm}", partial(figure5, batch, norm), None)
            for batch in (4, 8, 16, 32)
            for norm in ("batch", "sphere", "both", "sphere-orthogonal", "sphere-rescaled")
        ),
    ),
)
