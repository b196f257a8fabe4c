"""Counter-based random numbers: word ``(key, position, lane)`` is a hash, not the next of a sequence.

Any step's numbers can therefore be computed without those before it, on any device, inside a compiled or captured step,
and they are the same bits everywhere. Words have 32 bits and live in int64; the mixer is MurmurHash3's finaliser

    x ← x ⊕ (x ≫ 16);  x ← x·0x85EBCA6B;  x ← x ⊕ (x ≫ 13);  x ← x·0xC2B2AE35;  x ← x ⊕ (x ≫ 16)   (mod 2³²).

The order in which an epoch visits the samples is made of them: a function of its key alone.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from .._core.checks import check_count

MASK = 0xFFFFFFFF
WEYL = 0x9E3779B9  # 2³²/φ, odd: successive multiples are spread evenly

Int = TypeVar("Int", int, Tensor)


def words(key: Int, position: Int, lane: Int | int = 0) -> Int:
    """Hash three numbers below 2³² to one; ints give an int, int64 tensors broadcast."""
    mixed = _mix((position + key) & MASK)
    mixed = _mix((mixed ^ (key * 5 + 0xE6546B64)) & MASK)
    return _mix((mixed + (lane + 1) * WEYL) & MASK)


def uniforms(word: Tensor) -> Tensor:
    """Words to float32 in (0, 1): the middles of 2²³ equal cells, exact, so that a logarithm is finite."""
    return ((word >> 9).float() + 0.5) * 2.0**-23


def normals(key: Tensor, position: Tensor) -> Tensor:
    """Standard normal float32 numbers by Box and Muller: ``√(−2 ln u)·cos 2πv``."""
    u, v = uniforms(words(key, position)), uniforms(words(key, position, 1))
    return (-2 * u.log()).sqrt() * (2 * torch.pi * v).cos()


def epoch_key(seed: int, epoch: int) -> int:
    """A 32-bit key for one epoch of one seed, which may be negative."""
    seed = check_count("seed", seed, minimum=-(2**63))
    return words(words(seed & MASK, seed >> 32 & MASK, 0), epoch & MASK, 1)


def _mix(x: Int) -> Int:
    x = x ^ (x >> 16)
    x = (x * 0x85EBCA6B) & MASK
    x = x ^ (x >> 13)
    x = (x * 0xC2B2AE35) & MASK
    return x ^ (x >> 16)


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
        raise ValueError(f"per_class={per_class}, but no class has that many samples: lower it")
    return per_class
