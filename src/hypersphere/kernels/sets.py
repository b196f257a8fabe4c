"""The energies of several sets of neurons in three launches and a sum, and their gradients in one."""

from __future__ import annotations

import math

import torch
import triton
from torch import Tensor

from .device.sets import cosines, directions, gradients, set_pairs

PADDING = 32
"""The length of a row of fp16 halves is a multiple of this."""

_BLOCK, _STEP = 64, PADDING
_CHUNK = 256  # dimensions that one program multiplies: several programs share a wide layer
_WIDE = 64  # entries of a gradient that one program computes


def set_energies(
    flat: Tensor, table: Tensor, sizes: list[int], s: float, angular: bool, floor: float
) -> tuple[Tensor, ...]:
    """Return Σ_{i≠j} φ of each set, and what its gradient needs: directions, 1/‖w‖, φ', and Σ_j φ'·c by tile.

    Args:
        flat: The neurons of all sets, one after the other, float32.
        table: One row for each set on the device: see ``device/sets.py``.
        sizes: Neurons, dimension and half space (0 or 1) of each set, one after the other.
        s, angular, floor: As in ``functional.energy.kernel.Kernel``.
    """
    counts = sizes[::3]
    groups, most = len(counts), max(counts)
    tall = triton.cdiv(most, _BLOCK)
    rows, square = sum(counts), sum(count * count for count in counts)
    unit, inverse = torch.empty_like(flat), flat.new_empty(rows)
    slopes, along, partial = flat.new_empty(square), flat.new_empty(rows, tall), flat.new_empty(groups, tall * tall)
    dims = sizes[1::3]
    chunks = triton.cdiv(max(dims), _CHUNK)
    parts = flat.new_empty(chunks, square)
    padded = sum(count * (-(-dim // PADDING) * PADDING) for count, dim in zip(counts, dims, strict=True))
    high, low = flat.new_empty(2, padded, dtype=torch.float16)
    widest = min(triton.next_power_of_2(max(dims)), 1024)
    directions[(groups, most)](flat, unit, high, low, inverse, table, BLOCK=widest)
    cosines[(groups, tall * tall, chunks)](
        high, low, table, parts, square, BLOCK=_BLOCK, STEP=_STEP, CHUNK=_CHUNK, num_warps=4, num_stages=3
    )
    set_pairs[(groups, tall * tall)](
        parts, table, slopes, along, partial, s, math.sqrt(floor) if angular else floor, tall * tall, tall, square,
        S=int(s) if s in (0.0, 1.0, 2.0) else -1, ANGULAR=angular, FAST=flat.is_cuda, BLOCK=_BLOCK, CHUNK=_CHUNK,
        num_warps=8,
    )  # fmt: skip
    return partial.sum(1), unit, inverse, slopes, along


def set_gradients(
    unit: Tensor,
    inverse: Tensor,
    slopes: Tensor,
    along: Tensor,
    table: Tensor,
    scales: Tensor,
    incoming: Tensor,
    sizes: list[int],
) -> Tensor:
    """The gradient of Σ incoming·scale·(sum over pairs) at the neurons of all sets, flat."""
    result = torch.empty_like(unit)
    grid = (len(sizes) // 3, triton.cdiv(max(sizes[::3]), _BLOCK), triton.cdiv(max(sizes[1::3]), _WIDE))
    gradients[grid](
        unit, inverse, table, slopes, along, scales, incoming, result, along.shape[1], FAST=unit.is_cuda,
        BLOCK=_BLOCK, STEP=_WIDE, num_warps=4, num_stages=2,
    )  # fmt: skip
    return result
