"""What a pass over the classes of a head computes, of which tensors, and in which blocks and tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from .launch import interpreting

KINDS = ("cosine", "linear", "sigmoid", "square_cosine", "fraction", "curricular", "binary", "curved")
BLOCK = {True: 1 << 26, False: 1 << 25}  # logits of a block, in half precision and in float32
LARGEST = 80.0  # of log Σ e^u, so that the sum and its reciprocal are float32 numbers with room for factors


@dataclass(frozen=True)
class Rule:
    """The function f in u = a·f(z) + b (:mod:`.device.heads`) and its parameters.

    Args:
        kind: One of :data:`KINDS`.
        numbers: p0 to p2: 1/2k and 1/tanh(π/4k) of the sigmoid; 1/m of the fraction; r, m and t of the binary rule.
        normalize: Whether only the directions of the class vectors count.
        sub_centers: Number of vectors of each class.
    """

    kind: str
    numbers: tuple[float, float, float] = (0.0, 0.0, 0.0)
    normalize: bool = True
    sub_centers: int = 1


class Inputs(NamedTuple):
    """Tensors of a pass. ``x`` (N, d) and ``w`` (C·K, d) are multiplied; the others are (N,), (C,) or one number.

    ``sigma`` is one number, or (C,) of the rule "curved". ``operand`` is x in the dtype of the products, where that is
    at hand.
    """

    x: Tensor
    w: Tensor
    labels: Tensor
    amplitude: Tensor | None = None
    threshold: Tensor | None = None
    t: Tensor | None = None
    bias: Tensor | None = None
    q: Tensor | None = None
    sigma: Tensor | None = None
    operand: Tensor | None = None


class Block(NamedTuple):
    """Classes ``first`` to ``first + size``, their rows of w, and their tiles from ``tile`` to ``tile + columns``."""

    first: int
    size: int
    rows: slice
    tile: int
    columns: int


@dataclass(frozen=True)
class Pass:
    """What to sum over the classes, and how: ``total`` is 0 for no total, 1 for Σ u, 2 for Σ q·u; |u| ≤ ``bound``."""

    rule: Rule
    lse: bool
    total: int
    half: bool
    width: int | None = None
    bound: float = math.inf

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.half else torch.float32

    def operand(self, inputs: Inputs) -> Tensor:
        """x as it is multiplied."""
        return inputs.x.to(self.dtype).contiguous() if inputs.operand is None else inputs.operand

    def block(self, inputs: Inputs) -> int:
        """Classes of a block."""
        classes = inputs.w.shape[0] // self.rule.sub_centers
        rows = BLOCK[self.half] // max(inputs.x.shape[0], 1) // self.rule.sub_centers
        return min(classes, self.width or max(rows // 32 * 32, 1024))

    def blocks(self, inputs: Inputs, tile: int) -> list[Block]:
        """All blocks, in tiles of so many classes."""
        each, done, found = self.rule.sub_centers, 0, []
        classes, width = inputs.w.shape[0] // each, self.block(inputs)
        for first in range(0, classes, width):
            count = min(width, classes - first)
            found.append(Block(first, count, slice(first * each, (first + count) * each), done, -(-count // tile)))
            done += found[-1].columns
        return found

    def is_at_once(self, inputs: Inputs) -> bool:
        """Whether forward can prepare the gradients: e^u is bounded, and there is room for G until backward."""
        if (
            not (self.lse and self.rule.normalize)
            or self.total
            or inputs.bias is not None
            or self.rule.kind == "curved"
        ):
            return False
        rows, width = inputs.w.shape[0], self.block(inputs) * self.rule.sub_centers
        return self.bound + math.log(rows) <= LARGEST and (width == rows or self.lodges(inputs, width))

    def lodges(self, inputs: Inputs, rows: int) -> bool:
        """Whether G of so many rows of w fits in the memory of their gradient."""
        (samples, d), w = inputs.x.shape, inputs.w
        return w.dtype == torch.float32 and samples * padded(rows) * (2 if self.half else 4) <= 4 * rows * d


def padded(columns: int) -> int:
    """The number of classes in a block, rounded up to suit half-precision products; the rest is zeros."""
    return -(-columns // 32) * 32


class Tile(NamedTuple):
    """Samples, classes and depth of the tile that one program multiplies."""

    samples: int
    classes: int
    depth: int
    warps: int = 4
    stages: int = 3


def tile_of(job: Pass, samples: int, gradient: bool = False) -> Tile:
    several = job.rule.sub_centers > 1
    plain = job.rule.kind == "cosine" and not several
    few = several or samples <= 64 or job.rule.kind in ("fraction", "curved")  # these take most registers
    return _tiles(job.half, plain, gradient, few, interpreting())


SUMS_TILE = GRADIENT_TILE = Tile(128, 128, 64)


@cache
def _tiles(half: bool, plain: bool, gradient: bool, few: bool, small: bool) -> Tile:
    """Sizes at which few or no registers spill; a rule's own computations need registers, too."""
    if small:
        return Tile(16, 32, 16)
    if half and plain and not few:
        return GRADIENT_TILE if gradient else SUMS_TILE
    rows = 64 if few or not (half or plain) else 128
    return Tile(rows, 128, 64 if half else 32, warps=8)
