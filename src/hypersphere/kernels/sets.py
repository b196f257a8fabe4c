"""The energies of several sets of neurons and their weighted sum in three launches, and their gradients in one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import triton
from torch import Tensor

from .device.sets import cosines, directions, gradients, set_pairs

PADDING = 32
"""The length of a row of directions is a multiple of this."""

SOURCES = 32
"""Tensors that one launch reads from: a larger number takes several."""

_BLOCK, _STEP = 64, PADDING
_CHUNK = 256  # dimensions that one program multiplies: several programs share a wide layer
_WIDE, _WARPS, _STAGES = 64, 4, 2  # entries of a gradient that one program computes, and how it runs


def padded(length: int, step: int = PADDING) -> int:
    """The length of a row of so many entries."""
    return -(-length // step) * step


def set_energies(
    sources: Sequence[Tensor],
    table: Tensor,
    numbers: Tensor,
    beta: Tensor | None,
    sizes: Sequence[int],
    parts: Sequence[int],
    s: float,
    angular: bool,
    floor: float,
) -> tuple[Tensor, ...]:
    """Return Σ factor·energy, the energy of each set, and what the gradient needs.

    The latter are the directions, 1/‖w‖, φ', Σ_j φ'·c by tile, and apart from them φ' of near pairs and their tiles.

    Args:
        sources: The neurons, float32 and contiguous: one or more sets in each tensor.
        table: One row for each set on the device: see ``device/sets.py``.
        numbers: What makes a mean of the sum over pairs of each set, then its factor, (2, sets).
        beta: The lengths of all neurons, one set after the other; None: 1.
        sizes: Neurons, dimension and half space (0 or 1) of each set, one after the other.
        parts: The number of sets in each tensor.
        s, angular, floor: As in ``functional.energy.kernel.Kernel``.
    """
    counts, dims = sizes[::3], sizes[1::3]
    groups, most, widest = len(counts), max(counts), max(dims)
    rows, square = sum(counts), sum(count * padded(count, 16) for count in counts)
    tall, chunks = triton.cdiv(most, _BLOCK), triton.cdiv(widest, _CHUNK)
    entries = sum(count * padded(dim) for count, dim in zip(counts, dims, strict=True))
    new = sources[0].new_empty
    unit, inverse = new(entries), new(rows)
    high, low = new(2, entries, dtype=torch.float16)
    products, slopes, along, steep = new(chunks, square), new(square), new(rows, tall), new(square)
    marks = new(groups, tall * tall, dtype=torch.int32)
    partial, values, total = new(groups, tall * tall), new(groups), new(())
    ticket = new(1, dtype=torch.int32)
    first = 0
    for begin in range(0, len(sources), SOURCES):
        some = tuple(sources[begin : begin + SOURCES])
        here = sum(parts[begin : begin + SOURCES])
        directions[(here, most)](
            some, unit, high, low, inverse, ticket, table, first, begin,
            SOURCES=len(some), BLOCK=min(triton.next_power_of_2(widest), 1024),
        )  # fmt: skip
        first += here
    cosines[(groups, tall * tall, chunks)](
        high, low, table, products, square, BLOCK=_BLOCK, STEP=_STEP, CHUNK=_CHUNK, num_warps=4, num_stages=3
    )
    programs = sum(triton.cdiv(count, _BLOCK) ** 2 for count in counts)
    set_pairs[(groups, tall * tall)](
        unit, products, table, unit if beta is None else beta, numbers, slopes, along, steep, marks, partial, ticket,
        values, total,
        s, math.sqrt(floor) if angular else floor, groups, tall * tall, tall, square, programs,
        S=int(s) if s in (0.0, 1.0, 2.0) else -1, ANGULAR=angular, WEIGHTED=beta is not None, FAST=unit.is_cuda,
        BLOCK=_BLOCK, CHUNK=_CHUNK, PAD=PADDING, AT_ONCE=16, WIDE=16, num_warps=16,
    )  # fmt: skip
    return total, values, unit, inverse, slopes, along, steep, marks


def set_gradients(
    unit: Tensor,
    inverse: Tensor,
    slopes: Tensor,
    along: Tensor,
    steep: Tensor,
    marks: Tensor,
    table: Tensor,
    numbers: Tensor,
    d_total: Tensor | None,
    d_values: Tensor | None,
    sizes: Sequence[int],
) -> Tensor:
    """The gradient at the neurons of all sets, flat, from those of the weighted sum and of each energy (None: 0)."""
    result = unit.new_empty(sum(count * dim for count, dim in zip(sizes[::3], sizes[1::3], strict=True)))
    groups = len(sizes) // 3
    grid = (groups, triton.cdiv(max(sizes[::3]), _BLOCK), triton.cdiv(max(sizes[1::3]), _WIDE))
    gradients[grid](
        unit, inverse, table, slopes, along, steep, marks, numbers, unit if d_total is None else d_total,
        unit if d_values is None else d_values, result, groups, along.shape[1], marks.shape[1],
        TOTAL=d_total is not None, EACH=d_values is not None, FAST=unit.is_cuda, BLOCK=_BLOCK, STEP=_WIDE, PAD=PADDING,
        num_warps=_WARPS, num_stages=_STAGES,
    )  # fmt: skip
    return result
