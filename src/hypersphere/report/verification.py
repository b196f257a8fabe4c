"""Pairs of classes that training never saw: the ROC curve, and the pairs that are hardest to tell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .. import metrics
from ..evaluation import Verified
from .curves import thin
from .pictures import data_uri

__all__ = ["PairExample", "hardest_pairs", "roc_view"]


@dataclass(frozen=True)
class PairExample:
    """Two test images, the angle between their features in degrees, and whether they show one class."""

    pictures: tuple[str, str] | None
    classes: tuple[str, str]
    degrees: float
    same: bool


def roc_view(found: Verified, points: int = 400) -> dict[str, list[float]]:
    """The curve for the page: false and true accept rates in percent."""
    roc = found.result.roc
    turned = (roc.tpr - roc.fpr).tolist()
    kept = thin(turned, points)
    corner = roc.fpr.unique(return_inverse=True)[1]  # the steps at small rates matter most: keep each of the first
    small = [i for i in range(1, len(corner)) if corner[i] != corner[i - 1] and int(corner[i]) <= 50]
    chosen = sorted({*kept, *small, *(i - 1 for i in small)})
    return {name: [round(100 * float(column[i]), 4) for i in chosen] for name, column in _columns(roc)}


def hardest_pairs(
    found: Verified, images: Tensor | None, classes: tuple[str, ...], most: int
) -> tuple[list[PairExample], list[PairExample]]:
    """Pairs of one class with the largest angle, and of two classes with the smallest."""
    lists = []
    for same in (True, False):
        chosen = (found.pairs.same.bool() == same).nonzero().squeeze(1)
        order = found.scores[chosen].sort(descending=not same, stable=True).indices[:most]
        lists.append([_example(found, int(index), images, classes) for index in chosen[order]])
    return lists[0], lists[1]


def _example(found: Verified, index: int, images: Tensor | None, classes: tuple[str, ...]) -> PairExample:
    left, right = int(found.pairs.left[index]), int(found.pairs.right[index])
    cosine = max(-1.0, min(1.0, float(found.scores[index])))
    return PairExample(
        None if images is None else (data_uri(images[left]), data_uri(images[right])),
        (classes[int(found.labels[left])], classes[int(found.labels[right])]),
        math.degrees(math.acos(cosine)),
        bool(found.pairs.same[index]),
    )


def _columns(roc: metrics.ROC) -> list[tuple[str, Any]]:
    return [("far", roc.fpr), ("tar", roc.tpr)]
