"""Counter-based random numbers: word ``(key, position, lane)`` is a hash, not the next of a sequence.

Any step's numbers can therefore be computed without those before it, on any device, inside a compiled or captured step,
and they are the same bits everywhere. Words have 32 bits and live in int64; the mixer is MurmurHash3's finaliser

    x ← x ⊕ (x ≫ 16);  x ← x·0x85EBCA6B;  x ← x ⊕ (x ≫ 13);  x ← x·0xC2B2AE35;  x ← x ⊕ (x ≫ 16)   (mod 2³²).
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

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
    """A 32-bit key for one epoch of one seed."""
    return words(words(seed & MASK, seed >> 32 & MASK, 0), epoch & MASK, 1)


def _mix(x: Int) -> Int:
    x = x ^ (x >> 16)
    x = (x * 0x85EBCA6B) & MASK
    x = x ^ (x >> 13)
    x = (x * 0xC2B2AE35) & MASK
    return x ^ (x >> 16)
