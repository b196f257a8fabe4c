"""Retrieval: every test sample queries all others."""

from __future__ import annotations

from .. import metrics
from ..runs.quantities import Quantity
from .candidate import Candidate
from .measurement import measurement

__all__ = ["retrieval"]


@measurement(
    "retrieval",
    label="Retrieval",
    about="every test sample queries all others: mean average precision, recall at k",
    suits=("open",),
    quantities=(
        Quantity("map", "Mean average precision", "%", True),
        Quantity("map@r", "Mean average precision at R", "%", True),
        Quantity("r_precision", "R-precision", "%", True),
        Quantity("recall@*", "Recall at {}", "%", True),
    ),
)
def retrieval(candidate: Candidate) -> dict[str, float]:
    """``map``, ``map@r``, ``r_precision`` and ``recall@k``, in percent, by the cosine of the features."""
    found = metrics.retrieval(*candidate.embedding())
    recall = {f"recall@{k}": 100 * value for k, value in found.recall.items()}
    return {"map": 100 * found.map, "map@r": 100 * found.map_at_r, "r_precision": 100 * found.r_precision, **recall}
