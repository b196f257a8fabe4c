"""Pairs of classes that training never saw: the ROC curve, and the pairs that are hardest to tell."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from ..evaluation import Verified
from ..evaluation.pair_results import KeptPairs
from .curves import thin
from .examples import data_uri


@dataclass(frozen=True)
class PairExample:
    """Two test images, the angle between their features in degrees, and whether they show one class."""

    pictures: tuple[str, str] | None
    classes: tuple[str, str]
    degrees: float
    same: bool


def roc_view(far: Tensor, tar: Tensor, points: int = 400) -> dict[str, list[float]]:
    """The curve for the page: false and true accept rates in percent."""
    turned = (tar - far).tolist()
    kept = thin(turned, points)
    corner = far.unique(return_inverse=True)[1]  # the steps at small rates matter most: keep each of the first
    small = [i for i in range(1, len(corner)) if corner[i] != corner[i - 1] and int(corner[i]) <= 50]
    chosen = sorted({*kept, *small, *(i - 1 for i in small)})
    columns = {"far": far, "tar": tar}
    return {name: [round(100 * float(column[i]), 4) for i in chosen] for name, column in columns.items()}


def own_pairs(kept: KeptPairs, most: int) -> tuple[list[PairExample], list[PairExample]]:
    """The hardest of a user's own pairs: of one class, and of two."""
    lists: tuple[list[PairExample], list[PairExample]] = ([], [])
    for pair, (left, right) in zip(kept.hardest, kept.pictures, strict=True):
        chosen = lists[0 if pair.same else 1]
        if len(chosen) < most:
            shown = (data_uri(left), data_uri(right))
            chosen.append(PairExample(shown, (pair.left, pair.right), pair.degrees, pair.same))
    return lists


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
