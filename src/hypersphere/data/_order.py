"""In which order an epoch visits the samples: a function of its key alone, on any device."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.errors import check_count
from ._random import words

GROUPS = 0x6209  # the lane of the random words that order groups


def shuffled(key: Tensor, size: int, lane: int, labels: Tensor | None = None, per_class: int = 1) -> Tensor:
    """A permutation of ``size`` samples; sorting hashed positions permutes alike on every device and in every version.

    With ``per_class`` = K > 1 the samples of a class come in groups of K, drawn again in every epoch. Samples that are
    left over form groups of mixed classes, so that no part of an epoch is theirs alone; all groups are shuffled, but an
    incomplete one comes last. So a batch whose size is a multiple of K holds whole groups.
    """
    place = torch.arange(size, device=key.device)
    order = words(key, place, lane).argsort(stable=True)
    if per_class == 1 or labels is None or size == 0:
        return order
    order = order[labels[order].argsort(stable=True)]  # class by class, each one shuffled
    own = labels[order]
    first = torch.searchsorted(own, own)  # where each sample's class begins
    count = torch.searchsorted(own, own, right=True) - first
    group = (place - first) // per_class
    whole = (group + 1) * per_class <= count
    left = order[~whole]
    left = left[words(key, left, lane).argsort(stable=True)]
    order = torch.cat([order[whole], left])  # whole groups first: every K samples are a group
    group = place // per_class
    rank = torch.where((group + 1) * per_class <= size, words(key, group, GROUPS), 1 << 32)
    return order[rank.argsort(stable=True)]


def check_per_class(per_class: int, batch_size: int, labels: Tensor) -> int:
    """``per_class``, if whole groups fit a batch and the data have any."""
    check_count("per_class", per_class)
    if batch_size % per_class:
        raise ValueError(f"per_class={per_class} must divide batch_size={batch_size}: a batch holds whole groups")
    if per_class > 1 and (not labels.numel() or int(torch.bincount(labels).max()) < per_class):
        raise ValueError(f"per_class={per_class}, but no class has as many samples: lower it")
    return per_class
