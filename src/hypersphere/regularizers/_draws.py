"""Where regularizers draw from: a host generator, or a counter that lives in a tensor.

Both are functions of a seed, a purpose and an index, so that a resumed run continues exactly. The host's numbers are
those of ``torch.Generator``. The device's are hashes of (key, position): nothing is asked of the host, so they can be
compiled and captured in a CUDA graph, and a CPU computes the same ones up to rounding.

Random matrices that preserve angles (thesis 6.3.3, 6.5) are made of either, scaled so that E‖Pw‖² = ‖w‖².
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor


class Draws(Protocol):
    """A sequence of random tensors."""

    def normal(self, *shape: int) -> Tensor: ...

    def permutation(self, count: int) -> Tensor: ...

    def integers(self, high: int, *shape: int) -> Tensor: ...


class HostDraws:
    """Draws of a CPU generator."""

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, device=self.generator.device)

    def permutation(self, count: int) -> Tensor:
        return torch.randperm(count, generator=self.generator, device=self.generator.device)

    def integers(self, high: int, *shape: int) -> Tensor:
        return torch.randint(high, shape, generator=self.generator, device=self.generator.device)


class DeviceDraws:
    """Draws that depend on a key (a whole number in a tensor) and on how many were made before."""

    def __init__(self, key: Tensor) -> None:
        self.key, self.made = key, 0

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers, by Box and Muller's transform of two hashes."""
        radius = (self._bits(math.prod(shape)).float() + 1) * 2.0**-32  # in (0, 1]
        angle = self._bits(math.prod(shape)).float() * (2 * math.pi * 2.0**-32)
        return ((-2 * radius.log()).sqrt() * angle.cos()).view(shape)

    def permutation(self, count: int) -> Tensor:
        return self._bits(count).argsort()

    def permutations(self, counts: list[int]) -> list[Tensor]:
        """Several at once, in fewer launches."""
        return [part.argsort() for part in self._bits(sum(counts)).split(counts)]

    def integers(self, high: int, *shape: int) -> Tensor:
        return (self._bits(math.prod(shape)) * high >> 32).view(shape)

    def _bits(self, count: int) -> Tensor:
        """Whole numbers in [0, 2^32)."""
        self.made += 1
        stream = _hash(self.key ^ _hash_number(self.made))
        return _hash(_hash(torch.arange(count, device=self.key.device) ^ stream) + stream & _ALL)


def host_generator(seed: int, purpose: str, index: int) -> torch.Generator:
    """A CPU generator that depends on the seed, on what is drawn, and on which draw it is."""
    mixed = (seed * 1_000_003 + zlib.crc32(purpose.encode())) * 1_000_003 + index
    return torch.Generator().manual_seed(mixed % 2**63)


def key_of(seed: Tensor, purpose: str, index: Tensor) -> Tensor:
    """The key of a :class:`DeviceDraws`, from whole numbers in tensors."""
    named = _hash(seed & _ALL) ^ _hash(seed >> 32 & _ALL ^ _name_number(purpose))
    return _hash(_hash(index & _ALL) + named & _ALL)


_ALL = 0xFFFFFFFF
_FIRST, _SECOND = 0x5BD1_E995, 0x2C1B_3C6D  # odd, below 2^31: products with 32 bits stay below 2^63


def _hash(x: Tensor) -> Tensor:
    """A bijection of 32-bit numbers (kept in int64) in which every bit of x reaches every bit."""
    x = (x ^ x >> 16) * _FIRST & _ALL
    x = (x ^ x >> 15) * _SECOND & _ALL
    return x ^ x >> 16


def _name_number(name: str) -> int:
    """A 32-bit number for a name, in steps that a compiler can follow."""
    number = 0
    for character in name:
        number = _hash_number(number ^ ord(character)) + 1 & _ALL
    return number


def _hash_number(x: int) -> int:
    x = (x ^ x >> 16) * _FIRST & _ALL
    x = (x ^ x >> 15) * _SECOND & _ALL
    return x ^ x >> 16


def gaussian(rows: int, columns: int, draws: Draws) -> Tensor:
    """Entries N(0, 1/rows)."""
    return draws.normal(rows, columns) / rows**0.5


def gaussians(shapes: Sequence[tuple[int, int, int]], draws: DeviceDraws) -> list[Tensor]:
    """Several of them for each shape (count, rows, columns), in one draw for all shapes."""
    sizes = [math.prod(shape) for shape in shapes]
    parts = draws.normal(sum(sizes)).split(sizes)
    return [part.view(shape) / shape[1] ** 0.5 for shape, part in zip(shapes, parts, strict=True)]


def hadamard(rows: int, columns: int, draws: Draws) -> Tensor:
    """Subsampled randomized Hadamard transform: random rows of H·D, D random signs, zero-padded input."""
    size = 1 << max(columns - 1, 1).bit_length()
    chosen = draws.permutation(size)[:rows]
    signs = 1 - 2 * draws.integers(2, columns)
    overlap = chosen[:, None] & torch.arange(columns, device=chosen.device)  # H_ij = (−1)^(bits shared by i and j)
    for shift in (32, 16, 8, 4, 2, 1):
        overlap = overlap ^ (overlap >> shift)
    return (1 - 2 * (overlap & 1)) * signs / rows**0.5


def count_sketch(rows: int, columns: int, draws: Draws) -> Tensor:
    """One random sign in a random row of each column."""
    row = draws.integers(rows, 1, columns)
    signs = (1 - 2 * draws.integers(2, 1, columns)).float()
    return torch.zeros(rows, columns, dtype=signs.dtype, device=row.device).scatter(0, row, signs)


MATRICES: dict[str, Callable[[int, int, Draws], Tensor]] = {
    "gaussian": gaussian,
    "hadamard": hadamard,
    "count_sketch": count_sketch,
}
