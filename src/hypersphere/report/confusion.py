"""Which class is taken for which: counts, and the mean cosine of each class's features to each class vector."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import metrics
from ..evaluation import Outputs


def confusion_view(found: Outputs, most: int = 100) -> dict[str, Any]:
    """For the page: counts, and cosines in thousandths, row by row; of many classes those with most errors."""
    matrix = _counts(found)
    size = len(matrix)
    shown = torch.arange(size)
    if size > most:
        wrong = matrix.sum(1) - matrix.diagonal()
        shown = wrong.sort(descending=True, stable=True).indices[:most].sort().values
    return {
        "classes": [found.classes[int(label)] for label in shown],
        "of": size,
        "counts": matrix[shown][:, shown].flatten().tolist(),
        "totals": matrix.sum(1)[shown].tolist(),
        "cosines": _cosines(found, shown),
    }


def worst_pairs(found: Outputs, most: int = 10) -> list[tuple[str, str, int, int]]:
    """(true, predicted, how often, of how many), most frequent first."""
    matrix = _counts(found)
    totals, wrong = matrix.sum(1), matrix.clone().fill_diagonal_(0)
    top = wrong.flatten().sort(descending=True, stable=True).indices[:most].tolist()
    places = [divmod(place, len(matrix)) for place in top]
    return [
        (found.classes[i], found.classes[j], int(wrong[i, j]), int(totals[i])) for i, j in places if int(wrong[i, j])
    ]


def worst_classes(found: Outputs, most: int = 10) -> list[tuple[str, int, int]]:
    """(class, how many right, of how many), lowest accuracy first."""
    matrix = _counts(found)
    totals, right = matrix.sum(1), matrix.diagonal()
    order = (right / totals).nan_to_num(2.0).sort(stable=True).indices[:most].tolist()
    return [(found.classes[i], int(right[i]), int(totals[i])) for i in order if int(totals[i])]


def _counts(found: Outputs) -> Tensor:
    assert found.logits is not None
    return metrics.classification(found.logits, found.labels).confusion


def _cosines(found: Outputs, shown: Tensor) -> list[int | None] | None:
    if found.class_vectors is None or not bool(found.class_vectors.isfinite().all()):
        return None
    grid = metrics.cosine_confusion(found.features.double(), found.labels, found.class_vectors.double())
    values = grid[shown][:, shown].flatten().tolist()
    return [None if value != value else round(1000 * value) for value in values]
