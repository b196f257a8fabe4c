"""Class-imbalance variants of a balanced set (thesis 5.5.1, D.1, D.8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from .._core.checks import check_choice, check_count
from ._random import epoch_key, words
from .types import Dataset, Split

KINDS = ("single", "multiple", "digit0")


def imbalance(dataset: Dataset, kind: str | Mapping[int, int], *, seed: int = 0) -> Dataset:
    """Take fewer training images of some classes; the test split stays the same.

    Args:
        dataset: a set of images; only its training split is thinned out.
        kind: a name of :func:`imbalance_counts`, or ``{class: images to keep}``.
        seed: seed of the draw without replacement; the order of the images is kept.

    Returns:
        The data set with a smaller training split.

    Example:
        >>> smaller = hs.data.imbalance(hs.data.load("digits"), {0: 5})
        >>> int((smaller.train.labels == 0).sum())
        5
    """
    counts = _given(dataset.train, kind) if isinstance(kind, Mapping) else imbalance_counts(dataset.train, kind)
    return replace(dataset, train=dataset.train.subset(_keep(dataset.train.labels, counts, seed)))


def imbalance_counts(split: Split, kind: str) -> dict[int, int]:
    """How many images of each class a named setting keeps.

    * ``"single"``: the first tenth of the classes keeps 10%, the others all. CIFAR-10: class 0 has 500, 45,500 in all;
      CIFAR-100: classes 0-9 have 50 each, 45,500 in all.
    * ``"multiple"``: class i keeps ``n·(i + 1)/C`` of its n. CIFAR-10: ``500·(i + 1)``, 27,500 in all; CIFAR-100:
      ``5·(i + 1)``, 25,250 in all.
    * ``"digit0"``: class 0 keeps 100, the MNIST experiment of Figure 5.4.

    Args:
        split: the training split, whose class counts the rule starts from.
        kind: a setting of the list above.

    Returns:
        The number of images to keep, by class.

    Raises:
        ValueError: If ``imbalance`` is an unknown kind.

    Example:
        >>> hs.data.imbalance_counts(hs.data.load("digits").train, "digit0")[0]
        100
    """
    check_choice("imbalance", kind, KINDS)
    full = split.counts.tolist()
    classes = len(full)
    if kind == "digit0":
        return _given(split, {0: 100})
    if kind == "single":
        return {label: n // 10 if label < max(classes // 10, 1) else n for label, n in enumerate(full)}
    return {label: n * (label + 1) // classes for label, n in enumerate(full)}


def _given(split: Split, kept: Mapping[int, int]) -> dict[int, int]:
    full = split.counts.tolist()
    for label, count in kept.items():
        check_count("imbalance: class", label, minimum=0)
        check_count(f"imbalance: images of class {label}", count, minimum=0)
        if label >= len(full) or count > full[label]:
            there = full[label] if label < len(full) else 0
            raise ValueError(
                f"imbalance keeps {count} images of class {label}, which has {there} of {len(full)} classes"
            )
    return {label: kept.get(label, n) for label, n in enumerate(full)}


def _keep(labels: Tensor, counts: Mapping[int, int], seed: int) -> Tensor:
    """A mask with ``counts[c]`` random members of each class c: those whose hashed positions are smallest."""
    place = torch.arange(len(labels), device=labels.device)
    key = torch.full_like(place, epoch_key(seed, 0))
    draw = words(key, place, torch.zeros_like(place))
    keep = torch.zeros(len(labels), dtype=torch.bool, device=labels.device)
    for label, count in counts.items():
        members = (labels == label).nonzero().squeeze(1)
        keep[members[draw[members].argsort(stable=True)[:count]]] = True
    return keep
