"""Retrieval: every test sample queries all others."""

from __future__ import annotations

from .. import metrics
from ..config import Config
from ..runs import Team
from ..runs.quantities import Quantity
from ..sources import Source
from .candidate import Candidate
from .measurement import measurement


def _check(config: Config, source: Source, team: Team) -> None:
    if source.own is not None and int(source.own.test.labels.bincount().max()) < 2:
        raise ValueError(
            "every class that is held out has a single image, so a query would find nothing: give more images of a "
            "class, or hold out others with --data.split-seed or --data.held-out"
        )


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
    check=_check,
)
def retrieval(candidate: Candidate) -> dict[str, float]:
    """``map``, ``map@r``, ``r_precision`` and ``recall@k``, in percent, by the cosine of the features."""
    found = metrics.retrieval(*candidate.embedding())
    recall = {f"recall@{k}": 100 * value for k, value in found.recall.items()}
    return {"map": 100 * found.map, "map@r": 100 * found.map_at_r, "r_precision": 100 * found.r_precision, **recall}
