"""The kernels of the energies of several sets of neurons at once: directions, cosines, pairs, gradients.

All sets lie one after the other in one buffer; a table says where each begins and how large it is. Columns of the
table: first entry, neurons, dimension, first row, first slope, half space or not; then, for the buffers of fp16 halves,
whose rows are padded to whole steps, the first entry and the length of a row.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from .pair import pair

COLUMNS = tl.constexpr(8)


@triton.jit
def directions(flat, unit, high, low, inverse, table, BLOCK: tl.constexpr):
    """ŵ, its fp16 halves and 1/‖w‖ of one row, at any scale; all 0 for a zero row."""
    entry = table + tl.program_id(0) * COLUMNS
    row = tl.program_id(1)
    if row < tl.load(entry + 1):
        dim = tl.load(entry + 2)
        start = tl.load(entry) + row * dim
        k = tl.arange(0, BLOCK)
        largest = 0.0
        for step in range(0, dim, BLOCK):
            w = tl.abs(tl.load(flat + start + step + k, mask=step + k < dim, other=0.0))
            largest = tl.maximum(largest, tl.max(w, 0))
        scale = tl.where(largest > 0.0, largest, 1.0)
        squares = 0.0
        for step in range(0, dim, BLOCK):
            w = tl.load(flat + start + step + k, mask=step + k < dim, other=0.0) / scale
            squares += tl.sum(w * w, 0)
        length = tl.sqrt(tl.where(squares == 0.0, 1.0, squares))
        length_padded = tl.load(entry + 7)
        padded = tl.load(entry + 6) + row * length_padded
        for step in range(0, length_padded, BLOCK):
            w = tl.load(flat + start + step + k, mask=step + k < dim, other=0.0) / scale / length
            half = w.to(tl.float16)
            tl.store(unit + start + step + k, w, mask=step + k < dim)
            tl.store(high + padded + step + k, half, mask=step + k < length_padded)
            tl.store(low + padded + step + k, (w - half.to(tl.float32)).to(tl.float16), mask=step + k < length_padded)
        tl.store(inverse + tl.load(entry + 3) + row, tl.where(squares == 0.0, 0.0, 1.0 / length / scale))


@triton.jit
def cosines(high, low, table, parts, slab, BLOCK: tl.constexpr, STEP: tl.constexpr, CHUNK: tl.constexpr):
    """One tile on or above the diagonal, over some dimensions: ŵ = h + l, c = h·h + h·l + l·h, summed later."""
    entry = table + tl.program_id(0) * COLUMNS
    count = tl.load(entry + 1)
    tall = tl.cdiv(count, BLOCK)
    down, right = tl.program_id(1) // tall, tl.program_id(1) % tall
    begin = tl.program_id(2) * CHUNK
    if (tl.program_id(1) < tall * tall) & (down <= right) & (begin < tl.load(entry + 2)):
        start, length = tl.multiple_of(tl.load(entry + 6), STEP), tl.multiple_of(tl.load(entry + 7), STEP)
        row, column = down * BLOCK + tl.arange(0, BLOCK), right * BLOCK + tl.arange(0, BLOCK)
        k = tl.arange(0, STEP)
        left = start + tl.minimum(row, count - 1)[:, None] * length + k[None, :]
        other = start + tl.minimum(column, count - 1)[:, None] * length + k[None, :]
        c = tl.zeros((BLOCK, BLOCK), tl.float32)
        for step in range(begin, tl.minimum(begin + CHUNK, length), STEP):
            ah, al = tl.load(high + left + step), tl.load(low + left + step)
            bh, bl = tl.load(high + other + step), tl.load(low + other + step)
            c = tl.dot(ah, tl.trans(bh), c)
            c = tl.dot(ah, tl.trans(bl), c)
            c = tl.dot(al, tl.trans(bh), c)
        where = tl.program_id(2) * slab + tl.load(entry + 4) + row[:, None] * count + column[None, :]
        tl.store(parts + where, c, mask=(row < count)[:, None] & (column < count)[None, :])


@triton.jit
def set_pairs(
    parts, table, slopes, along, partial, s, floor, tiles, width, slab,
    S: tl.constexpr, ANGULAR: tl.constexpr, FAST: tl.constexpr, BLOCK: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One tile of one set: Σφ, φ' of each pair, and Σ_j φ'·c of each row."""
    group, tile = tl.program_id(0), tl.program_id(1)
    entry = table + group * COLUMNS
    count = tl.load(entry + 1)
    tall = tl.cdiv(count, BLOCK)
    if tile >= tall * tall:
        tl.store(partial + group * tiles + tile, 0.0)
    else:
        first = tl.load(entry + 4)
        down, right = tile // tall, tile % tall
        row, column = down * BLOCK + tl.arange(0, BLOCK), right * BLOCK + tl.arange(0, BLOCK)
        square = (row < count)[:, None] & (column < count)[None, :]
        above = first + row[:, None] * count + column[None, :]
        below = first + column[None, :] * count + row[:, None]
        where = tl.where(down <= right, above, below)  # below the diagonal: the mirrored entry above it
        c = tl.zeros((BLOCK, BLOCK), tl.float32)
        for part in range(tl.cdiv(tl.load(entry + 2), CHUNK)):
            c += tl.load(parts + part * slab + where, mask=square, other=0.0)
        counted = square & (row[:, None] != column[None, :])
        c = tl.where(counted, c, 0.0)
        value, slope = pair(1.0 - c, 1.0 + c, 1.0, 0.0, s, floor, S, ANGULAR, False, False, True, FAST)
        if tl.load(entry + 5) > 0:
            mirrored, back = pair(1.0 + c, 1.0 - c, 1.0, 0.0, s, floor, S, ANGULAR, False, False, True, FAST)
            value += mirrored
            slope -= back
        value = tl.where(counted, value, 0.0)
        slope = tl.where(counted, -slope, 0.0)
        tl.store(partial + group * tiles + tile, tl.sum(tl.sum(value, 1), 0))
        tl.store(slopes + above, slope, mask=square)
        at = along + (tl.load(entry + 3) + row) * width + right
        tl.store(at, tl.sum(slope * c, 1), mask=row < count)


@triton.jit
def _parts(x, FAST: tl.constexpr):
    """x as a sum of three bfloat16 numbers; in float32 for the interpreter, which does not multiply bfloat16.

    The sums of a gradient nearly cancel where neurons are spread: two parts would not be precise enough.
    """
    first = x.to(tl.bfloat16)
    rest = x - first.to(tl.float32)
    second = rest.to(tl.bfloat16)
    third = (rest - second.to(tl.float32)).to(tl.bfloat16)
    if FAST:
        return first, second, third
    else:
        return first.to(tl.float32), second.to(tl.float32), third.to(tl.float32)


@triton.jit
def gradients(
    unit, inverse, table, slopes, along, scales, incoming, result, width,
    FAST: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
):  # fmt: skip
    """2·(Σ_j φ'·ŵ_j − ŵ_i·Σ_j φ'·c)/‖w_i‖ of some rows and entries, times the incoming gradient."""
    group = tl.program_id(0)
    entry = table + group * COLUMNS
    count, dim = tl.load(entry + 1), tl.load(entry + 2)
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.program_id(2) * STEP + tl.arange(0, STEP)
    if (tl.program_id(1) * BLOCK < count) & (tl.program_id(2) * STEP < dim):
        start, first = tl.load(entry), tl.load(entry + 3)
        shift = tl.load(entry + 4)
        total = tl.zeros((BLOCK, STEP), tl.float32)
        radial = tl.zeros((BLOCK,), tl.float32)
        for other in range(0, count, BLOCK):
            column = other + tl.arange(0, BLOCK)
            slope = tl.load(
                slopes + shift + row[:, None] * count + column[None, :],
                mask=(row < count)[:, None] & (column < count)[None, :],
                other=0.0,
            )
            points = tl.load(
                unit + start + column[:, None] * dim + k[None, :],
                mask=(column < count)[:, None] & (k < dim)[None, :],
                other=0.0,
            )
            a1, a2, a3 = _parts(slope, FAST)
            b1, b2, b3 = _parts(points, FAST)
            total = tl.dot(a1, b1, total, input_precision="ieee")
            total = tl.dot(a1, b2, total, input_precision="ieee")
            total = tl.dot(a2, b1, total, input_precision="ieee")
            total = tl.dot(a2, b2, total, input_precision="ieee")
            total = tl.dot(a1, b3, total, input_precision="ieee")
            total = tl.dot(a3, b1, total, input_precision="ieee")
            radial += tl.load(along + (first + row) * width + other // BLOCK, mask=row < count, other=0.0)
        mask = (row < count)[:, None] & (k < dim)[None, :]
        where = start + row[:, None] * dim + k[None, :]
        own = tl.load(unit + where, mask=mask, other=0.0)
        factor = tl.load(incoming + group) * tl.load(scales + group) * 2.0
        length = tl.load(inverse + first + row, mask=row < count, other=0.0)
        tl.store(result + where, (total - own * radial[:, None]) * (length * factor)[:, None], mask=mask)
