"""The kernels of the energies of several sets of neurons at once: directions, cosines, pairs, gradients.

Neurons are read where they are, from one or more tensors; what is computed of them lies one set after the other in one
buffer. A table says where each set begins and how large it is. Columns of the table: first entry, neurons, dimension,
first row, first slope, half space or not; for the buffers of directions, whose rows are padded to whole steps so that
they are read several entries at a time, the first entry and the length of a row; the tensor that the set is in, and its
first entry there. Rows of slopes are padded to multiples of 16.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from .pair import pair

COLUMNS = tl.constexpr(10)
_LEAST = tl.constexpr(1e-24)  # squared lengths outside these limits are computed at another scale
_MOST = tl.constexpr(1e24)
_NEAR = tl.constexpr(0.97)  # the cosine at a distance of 0.25, from which on rounding would cost more than 1e-5


@triton.jit
def directions(
    sources, unit, high, low, inverse, ticket, table, first, before, SOURCES: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """ŵ, its fp16 halves and 1/‖w‖ of one row, at any scale; all 0 for a zero row.

    ``sources`` are some of the tensors, ``before`` is the number of those before them, ``first`` that of their sets.
    """
    entry = table + (first + tl.program_id(0)) * COLUMNS
    row = tl.program_id(1)
    if row < tl.load(entry + 1):
        if (first == 0) & (tl.program_id(0) == 0) & (row == 0):
            tl.store(ticket, 0)
        number, dim = tl.load(entry + 8) - before, tl.load(entry + 2)
        address = tl.cast(sources[0], tl.int64)
        for index in tl.static_range(1, SOURCES):
            address = tl.where(number == index, tl.cast(sources[index], tl.int64), address)
        neuron = tl.cast(address, tl.pointer_type(tl.float32)) + tl.load(entry + 9) + row * dim
        k = tl.arange(0, BLOCK)
        scale = tl.full((), 1.0, tl.float32)
        squares = _squares(neuron, dim, scale, BLOCK)
        usual = (squares > _LEAST) & (squares < _MOST)
        if usual == 0:
            largest = 0.0
            for step in range(0, dim, BLOCK):
                w = tl.abs(tl.load(neuron + step + k, mask=step + k < dim, other=0.0))
                largest = tl.maximum(largest, tl.max(w, 0))
            scale = tl.where(largest > 0.0, largest, 1.0)
            squares = _squares(neuron, dim, scale, BLOCK)
        length = tl.sqrt(tl.where(squares == 0.0, 1.0, squares))
        length_padded = tl.load(entry + 7)
        padded = tl.load(entry + 6) + row * length_padded
        for step in range(0, length_padded, BLOCK):
            w = tl.load(neuron + step + k, mask=step + k < dim, other=0.0) / scale / length
            half = w.to(tl.float16)
            tl.store(unit + padded + step + k, w, mask=step + k < length_padded)
            tl.store(high + padded + step + k, half, mask=step + k < length_padded)
            tl.store(low + padded + step + k, (w - half.to(tl.float32)).to(tl.float16), mask=step + k < length_padded)
        tl.store(inverse + tl.load(entry + 3) + row, tl.where(squares == 0.0, 0.0, 1.0 / length / scale))


@triton.jit
def _squares(neuron, dim, scale, BLOCK: tl.constexpr):
    k = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(0, dim, BLOCK):
        w = tl.load(neuron + step + k, mask=step + k < dim, other=0.0) / scale
        total += w * w
    return tl.sum(total, 0)


@triton.jit
def _place(entry, STEP: tl.constexpr):
    """Where the directions of a set begin and the length of their rows, and the same of its slopes."""
    count = tl.load(entry + 1).to(tl.int32)
    start, length = tl.multiple_of(tl.load(entry + 6), STEP), tl.multiple_of(tl.load(entry + 7).to(tl.int32), STEP)
    return start, length, tl.multiple_of(tl.load(entry + 4), 16), tl.multiple_of(tl.cdiv(count, 16) * 16, 16)


@triton.jit
def cosines(high, low, table, parts, slab, BLOCK: tl.constexpr, STEP: tl.constexpr, CHUNK: tl.constexpr):
    """One tile on or above the diagonal, over some dimensions: ŵ = h + l, c = h·h + h·l + l·h, summed later."""
    entry = table + tl.program_id(0) * COLUMNS
    count = tl.load(entry + 1)
    tall = tl.cdiv(count, BLOCK)
    down, right = tl.program_id(1) // tall, tl.program_id(1) % tall
    begin = tl.program_id(2) * CHUNK
    if (tl.program_id(1) < tall * tall) & (down <= right) & (begin < tl.load(entry + 2)):
        start, length, shift, stride = _place(entry, STEP)
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
        where = tl.program_id(2).to(tl.int64) * slab + shift + row[:, None] * stride + column[None, :]
        tl.store(parts + where, c, mask=(row < count)[:, None] & (column < count)[None, :])


@triton.jit
def set_pairs(
    unit, parts, table, beta, numbers, slopes, along, steep, marks, partial, ticket, values, total,
    s, floor, groups, tiles, width, slab, programs,
    S: tl.constexpr, ANGULAR: tl.constexpr, WEIGHTED: tl.constexpr, FAST: tl.constexpr,
    BLOCK: tl.constexpr, CHUNK: tl.constexpr, PAD: tl.constexpr, AT_ONCE: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """One tile of one set: Σφ, φ' of each pair, and Σ_j φ'·c of each row. The last program adds up the tiles.

    Of near pairs along ±ŵ_j, whose φ' is steep, ``steep`` has φ' and the sum φ'·(c ∓ 1): their share of the gradient is
    taken from the difference ŵ_j ∓ ŵ_i, as it is little of ŵ_j. ``marks`` says which tiles have any.
    """
    group, tile = tl.program_id(0), tl.program_id(1)
    entry = table + group * COLUMNS
    count = tl.load(entry + 1)
    tall = tl.cdiv(count, BLOCK)
    if tile < tall * tall:
        start, length, shift, stride = _place(entry, PAD)
        first = tl.load(entry + 3)
        down, right = tile // tall, tile % tall
        row, column = down * BLOCK + tl.arange(0, BLOCK), right * BLOCK + tl.arange(0, BLOCK)
        square = (row < count)[:, None] & (column < count)[None, :]
        c = _summed(parts, shift, tl.minimum(down, right), tl.maximum(down, right), count, stride, tl.load(entry + 2),
                    slab, BLOCK, CHUNK)  # fmt: skip
        if down > right:  # only tiles above the diagonal were computed
            c = tl.trans(c)
        counted = square & (row[:, None] != column[None, :])
        c = tl.where(counted, c, 1.0)
        v, w = 1.0 - c, 1.0 + c
        near = counted & (tl.abs(c) > _NEAR)
        if tl.max(tl.max(near.to(tl.int32), 1), 0) > 0:
            v, w = _from_differences(c, v, w, near, unit + start, row, column, count, length, tl.load(entry + 2))
            c = tl.where(near, 0.5 * (w - v), c)
        a = 1.0
        b = 0.0
        if WEIGHTED:
            left = tl.load(beta + first + row, mask=row < count, other=1.0)[:, None]
            across = tl.load(beta + first + column, mask=column < count, other=1.0)[None, :]
            gap = tl.abs(left) - tl.abs(across)
            a, b = left * across, gap * gap
        value, slope = pair(v, w, a, b, s, floor, S, ANGULAR, False, WEIGHTED, True, FAST)
        value = tl.where(counted, value, 0.0)
        if tl.load(entry + 5) > 0:  # with the opposite neurons, also that of a neuron itself
            mirrored, back = pair(w, v, a, b, s, floor, S, ANGULAR, False, WEIGHTED, True, FAST)
            value += tl.where(square, mirrored, 0.0)
            slope -= back
        slope = tl.where(counted, -slope, 0.0)
        tl.store(partial + group * tiles + tile, tl.sum(tl.sum(value, 1), 0))
        where = shift + row[:, None] * stride + column[None, :]
        close = near & (slope * c > 0.0)
        found = tl.max(tl.max(close.to(tl.int32), 1), 0)
        tl.store(marks + group * tiles + tile, found)
        if found > 0:
            tl.store(steep + where, tl.where(close, slope, 0.0), mask=square)
            c = tl.where(close, tl.where(c > 0.0, -v, w), c)
        filled = (row < count)[:, None] & (column < stride)[None, :]  # with the zeros after the last column
        tl.store(slopes + where, tl.where(close, 0.0, slope), mask=filled)
        tl.store(along + (first + row) * width + right, tl.sum(slope * c, 1), mask=row < count)
        tl.debug_barrier()
        if tl.atomic_add(ticket, 1) == programs - 1:
            _add_up(partial, table, numbers, values, total, groups, tiles, BLOCK, AT_ONCE, WIDE)


@triton.jit
def _from_differences(c, v, w, near, neurons, row, column, count, length, dim):
    """v = 1 − c and w = 1 + c, from ½‖ŵ_i ∓ ŵ_j‖² where the pair is near: a cosine would leave them few digits."""
    squares = tl.zeros_like(c)
    sign = tl.where(c < 0.0, -1.0, 1.0)
    left, right = neurons + row * length, neurons + column * length
    for k in range(dim):
        here, there = tl.load(left + k, mask=row < count, other=0.0), tl.load(right + k, mask=column < count, other=0.0)
        gap = here[:, None] - sign * there[None, :]
        squares += gap * gap
    close = 0.5 * squares
    v = tl.where(near, tl.where(c > 0.0, close, 2.0 - close), v)
    return v, tl.where(near, tl.where(c > 0.0, 2.0 - close, close), w)


@triton.jit
def _summed(parts, shift, down, right, count, stride, dim, slab, BLOCK: tl.constexpr, CHUNK: tl.constexpr):
    """The cosines of a tile on or above the diagonal."""
    row, column = down * BLOCK + tl.arange(0, BLOCK), right * BLOCK + tl.arange(0, BLOCK)
    where = shift + row[:, None] * stride + column[None, :]
    inside = (row < count)[:, None] & (column < count)[None, :]
    c = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(tl.cdiv(dim, CHUNK)):
        c += tl.load(parts + where, mask=inside, other=0.0)
        parts += slab  # all parts together may have more entries than 32 bits count
    return c


@triton.jit
def _add_up(
    partial, table, numbers, values, total, groups, tiles, BLOCK: tl.constexpr, AT_ONCE: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """The mean energy of each set from the sums of its tiles, and Σ factor·mean."""
    whole = tl.zeros((AT_ONCE,), tl.float32)
    for begin in range(0, groups, AT_ONCE):
        group = begin + tl.arange(0, AT_ONCE)
        there = group < groups
        tall = tl.cdiv(tl.load(table + group * COLUMNS + 1, mask=there, other=0), BLOCK)
        sums = tl.zeros((AT_ONCE,), tl.float32)
        for start in range(0, tiles, WIDE):
            tile = start + tl.arange(0, WIDE)
            inside = tile[None, :] < (tall * tall)[:, None]
            found = tl.load(
                partial + group[:, None] * tiles + tile[None, :], mask=inside, other=0.0, cache_modifier=".cg"
            )
            sums += tl.sum(found, 1)
        mean = sums * tl.load(numbers + group, mask=there, other=0.0)
        tl.store(values + group, mean, mask=there)
        whole += mean * tl.load(numbers + groups + group, mask=there, other=0.0)
    tl.store(total, tl.sum(whole, 0))


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
def _add_differences(total, own, steep, points, first, row, count, length, BLOCK: tl.constexpr):
    """total + Σ_j φ'·(ŵ_j ∓ ŵ_i) over the near pairs of a tile; the sign of φ' says which.

    As each row has them: at the edge of what is near, rounding may take (i, j) for near and (j, i) not.
    """
    for column in range(first, tl.minimum(first + BLOCK, count)):
        slope = tl.load(steep + column, mask=row < count, other=0.0)
        if tl.max(tl.abs(slope), 0) > 0.0:
            point = tl.load(points + column * length)
            sign = tl.where(slope < 0.0, -1.0, 1.0)
            total += slope[:, None] * (point[None, :] - sign[:, None] * own)
    return total


@triton.jit
def gradients(
    unit, inverse, table, slopes, along, steep, marks, numbers, d_total, d_values, result, groups, width, tiles,
    TOTAL: tl.constexpr, EACH: tl.constexpr, FAST: tl.constexpr, BLOCK: tl.constexpr, STEP: tl.constexpr,
    PAD: tl.constexpr,
):  # fmt: skip
    """2·(Σ_j φ'·ŵ_j − ŵ_i·Σ_j φ'·c)/‖w_i‖ of some rows and entries, times the gradients of the sum and of the set."""
    group = tl.program_id(0)
    entry = table + group * COLUMNS
    count, dim = tl.load(entry + 1).to(tl.int32), tl.load(entry + 2).to(tl.int32)
    row = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.program_id(2) * STEP + tl.arange(0, STEP)
    if (tl.program_id(1) * BLOCK < count) & (tl.program_id(2) * STEP < dim):
        start, length, shift, stride = _place(entry, PAD)
        first = tl.load(entry + 3)
        tall = tl.cdiv(count, BLOCK)
        tile = group * tiles + tl.program_id(1) * tall
        across = tl.arange(0, 16)
        marked = tl.max(tl.load(marks + tile + across, mask=across < tall, other=0), 0)
        total = tl.zeros((BLOCK, STEP), tl.float32)
        radial = tl.zeros((BLOCK,), tl.float32)
        for other in range(0, count, BLOCK):
            column = other + tl.arange(0, BLOCK)
            slope = tl.load(
                slopes + shift + row[:, None] * stride + column[None, :],
                mask=(row < count)[:, None] & (column < stride)[None, :],
                other=0.0,
            )
            points = tl.load(
                unit + start + column[:, None] * length + k[None, :],
                mask=(column < count)[:, None] & (k < length)[None, :],
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
            radial += tl.load(along + first * width + row * width + other // BLOCK, mask=row < count, other=0.0)
        mask = (row < count)[:, None] & (k < length)[None, :]
        own = tl.load(unit + start + row[:, None] * length + k[None, :], mask=mask, other=0.0)
        if marked > 0:
            for right in range(tall):
                if tl.load(marks + tile + right) > 0:
                    total = _add_differences(
                        total, own, steep + shift + row * stride, unit + start + tl.minimum(k, length - 1),
                        right * BLOCK, row, count, length, BLOCK,
                    )  # fmt: skip
        factor = 0.0
        if TOTAL:
            factor += tl.load(d_total) * tl.load(numbers + groups + group)
        if EACH:
            factor += tl.load(d_values + group)
        factor *= 2.0 * tl.load(numbers + group)
        factors = factor * tl.load(inverse + first + row, mask=row < count, other=0.0)
        where = tl.load(entry) + row[:, None] * dim + k[None, :]
        tl.store(result + where, (total - own * radial[:, None]) * factors[:, None], mask=mask & (k < dim)[None, :])
