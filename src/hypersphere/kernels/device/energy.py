"""The kernels of the energy of many neurons: tiles of pairs, and the correction of close pairs.

A tile is a product of fp16 halves, ŵ = h + l: c = h·h + h·l + l·h, as exact as float32. Its epilogue adds up φ(c)
and writes φ'(c), from which ordinary products compute the gradient. Pairs closer than a threshold are left out of both
and their tile is marked. Their weight falls to 0 over a short interval, so it does not matter on which side of the
threshold rounding puts a pair. Marked tiles are searched again, and close pairs are computed from the difference of the
two vectors.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

from .pair import pair


@triton.jit
def _cosines(
    xh, xl, yh, yl, row, column, rows, columns, D,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    k = tl.arange(0, BK)
    left = tl.minimum(row, rows - 1)[:, None] * D + k[None, :]
    right = tl.minimum(column, columns - 1)[:, None] * D + k[None, :]
    c = tl.zeros((BM, BN), tl.float32)
    for step in range(0, D, BK):
        ah = tl.load(xh + left + step)
        bh = tl.load(yh + right + step)
        al = tl.load(xl + left + step)
        bl = tl.load(yl + right + step)
        c = tl.dot(ah, tl.trans(bh), c)
        c = tl.dot(ah, tl.trans(bl), c)
        c = tl.dot(al, tl.trans(bh), c)
    return c


@triton.jit
def _counted(row, column, rows, columns, row_start, column_start, own, TRIANGLE: tl.constexpr):
    """The pairs of a tile: those above the diagonal, or all but each row's own column."""
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    there = column + column_start
    if TRIANGLE:
        return inside & (there[None, :] > (row + row_start)[:, None])
    else:
        left_out = tl.load(own + row, mask=row < rows, other=-1)
        return inside & (there[None, :] != left_out[:, None]) & (left_out >= 0)[:, None]


@triton.jit
def _lengths(beta_x, beta_y, row, column, rows, columns, WEIGHTED: tl.constexpr):
    """a = β_i·β_j and b = (|β_i| − |β_j|)²."""
    if WEIGHTED:
        left = tl.load(beta_x + row, mask=row < rows, other=1.0)[:, None]
        right = tl.load(beta_y + column, mask=column < columns, other=1.0)[None, :]
        gap = tl.abs(left) - tl.abs(right)
        return left * right, gap * gap
    else:
        return 1.0, 0.0


@triton.jit
def _taper(u, close):
    """The weight of a pair in its tile, u = 1 ∓ c: 1 beyond the threshold, 0 below nine tenths of it."""
    return tl.minimum(tl.maximum((u - 0.45 * close) * (20.0 / close), 0.0), 1.0)


@triton.jit
def tiles(
    xh, xl, yh, yl,  # halves of the rows and of the columns, (rows, D) and (columns, D)
    beta_x, beta_y, own,  # lengths of both; the column that each row leaves out, or −1 to leave out the row
    line,  # (2,) start and rise: what is stored is φ' − (start + rise·c)
    high, low, partial, marks,  # φ' in one or two parts, (rows, columns); Σφ of each tile; whether it has close pairs
    rows, columns, row_start, column_start, D, stride, s, floor, close,
    S: tl.constexpr, ANGULAR: tl.constexpr, HALF: tl.constexpr, WEIGHTED: tl.constexpr, GUARD: tl.constexpr,
    FAST: tl.constexpr, LINE: tl.constexpr, TRIANGLE: tl.constexpr, GRAD: tl.constexpr, SPLIT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tall = tl.cdiv(rows, BM)
    first_row, first_column = (pid % tall) * BM, (pid // tall) * BN
    row, column = first_row + tl.arange(0, BM), first_column + tl.arange(0, BN)
    if TRIANGLE and column_start + first_column + BN <= row_start + first_row + 1:
        tl.store(partial + pid, 0.0)
        tl.store(marks + pid, 0)
        if GRAD:
            where = row[:, None] * stride + column[None, :]
            inside = (row < rows)[:, None] & (column < columns)[None, :]
            zeros = tl.zeros((BM, BN), high.dtype.element_ty)
            tl.store(high + where, zeros, mask=inside)
            if SPLIT:
                tl.store(low + where, zeros, mask=inside)
    else:
        edge = True
        if TRIANGLE:  # whether the tile has pairs that do not count
            edge = (first_row + BM > rows) | (first_column + BN > columns)
            edge = edge | (column_start + first_column < row_start + first_row + BM)
        c = _cosines(xh, xl, yh, yl, row, column, rows, columns, D, BM, BN, BK)
        if edge:
            c = tl.where(_counted(row, column, rows, columns, row_start, column_start, own, TRIANGLE), c, 0.0)
        if HALF or WEIGHTED:
            most = tl.max(tl.max(tl.abs(c), 1), 0)
        else:
            most = tl.max(tl.max(c, 1), 0)
        near = most > 1.0 - 0.5 * close
        quarter: tl.constexpr = BN // 4  # a part at a time, to save registers
        first_half, second_half = tl.split(tl.permute(tl.reshape(c, (BM, 2, BN // 2)), (0, 2, 1)))
        total = tl.zeros((BM,), tl.float32)
        for half in tl.static_range(2):
            both = first_half if half == 0 else second_half
            left, right = tl.split(tl.permute(tl.reshape(both, (BM, 2, quarter)), (0, 2, 1)))
            for side in tl.static_range(2):
                total += _finish(
                    left if side == 0 else right, edge, near, row, first_column + (2 * half + side) * quarter,
                    beta_x, beta_y, own, line, high, low,
                    rows, columns, row_start, column_start, stride, s, floor, close,
                    S, ANGULAR, HALF, WEIGHTED, GUARD, FAST, LINE, TRIANGLE, GRAD, SPLIT, quarter,
                )  # fmt: skip
        tl.store(partial + pid, tl.sum(total, 0))
        tl.store(marks + pid, near.to(tl.int32))


@triton.jit
def _finish(
    c, edge, near, row, first_column, beta_x, beta_y, own, line, high, low,
    rows, columns, row_start, column_start, stride, s, floor, close,
    S: tl.constexpr, ANGULAR: tl.constexpr, HALF: tl.constexpr, WEIGHTED: tl.constexpr, GUARD: tl.constexpr,
    FAST: tl.constexpr, LINE: tl.constexpr, TRIANGLE: tl.constexpr, GRAD: tl.constexpr, SPLIT: tl.constexpr,
    WIDTH: tl.constexpr,
):  # fmt: skip
    """Σφ of some cosines by row; writes φ'. Most tiles have neither an ``edge`` nor pairs that are ``near``."""
    column = first_column + tl.arange(0, WIDTH)
    inner = c
    if near:
        limit = 1.0 - 0.5 * close
        inner = tl.where(c > limit, limit, c)
        if HALF or WEIGHTED:
            inner = tl.where(inner < -limit, -limit, inner)
    a, b = _lengths(beta_x, beta_y, row, column, rows, columns, WEIGHTED)
    value, slope = pair(1.0 - inner, 1.0 + inner, a, b, s, floor, S, ANGULAR, HALF, WEIGHTED, GUARD, FAST)
    slope = -slope
    if LINE:
        slope -= tl.load(line) + tl.load(line + 1) * c
    if near:
        u = 1.0 - c
        if HALF or WEIGHTED:
            u = 1.0 - tl.abs(c)
        share = _taper(u, close)
        value = tl.where(share == 0.0, 0.0, value * share)
        slope = tl.where(share == 0.0, 0.0, slope * share)
    if edge:
        counted = _counted(row, column, rows, columns, row_start, column_start, own, TRIANGLE)
        value = tl.where(counted, value, 0.0)
        slope = tl.where(counted, slope, 0.0)
    if GRAD:
        where = row[:, None] * stride + column[None, :]
        first = slope.to(high.dtype.element_ty)
        second = first
        if SPLIT:
            second = (slope - first.to(tl.float32)).to(low.dtype.element_ty)
        if edge:
            inside = (row < rows)[:, None] & (column < columns)[None, :]
            tl.store(high + where, first, mask=inside)
            if SPLIT:
                tl.store(low + where, second, mask=inside)
        else:  # stores without masks are vectorised
            tl.store(high + where, first)
            if SPLIT:
                tl.store(low + where, second)
    return tl.sum(value, 1)


@triton.jit
def _excess(
    v, w, u, c, a, b, s, floor, close, line,
    S: tl.constexpr, ANGULAR: tl.constexpr, HALF: tl.constexpr, WEIGHTED: tl.constexpr, FAST: tl.constexpr,
    LINE: tl.constexpr,
):  # fmt: skip
    """φ and φ' of a close pair minus what its tile has already counted; v = 1 − c, w = 1 + c, u the smaller of both."""
    end = 1.0 - 0.5 * close
    end = tl.where(v < w, end, -end)
    value, slope = pair(v, w, a, b, s, floor, S, ANGULAR, HALF, WEIGHTED, True, FAST)
    end_value, end_slope = pair(1.0 - end, 1.0 + end, a, b, s, floor, S, ANGULAR, HALF, WEIGHTED, True, FAST)
    share = _taper(u, close)
    tangent = 0.0
    if LINE:
        tangent = tl.load(line) + tl.load(line + 1) * c
    return value - share * end_value, -slope - (tangent + share * (-end_slope - tangent))


@triton.jit
def find_close(
    xh, xl, yh, yl, x, y,  # the halves, and the vectors in float32, (rows, dim) and (columns, dim)
    beta_x, beta_y, own, line, marks, pairs, counter, extra, grad_x, grad_y,
    rows, columns, row_start, column_start, D, dim, capacity, s, floor, close,
    S: tl.constexpr, ANGULAR: tl.constexpr, HALF: tl.constexpr, WEIGHTED: tl.constexpr, FAST: tl.constexpr,
    LINE: tl.constexpr, TRIANGLE: tl.constexpr, GRAD: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PART_M: tl.constexpr, PART_N: tl.constexpr,
):  # fmt: skip
    """List the close pairs of a marked tile. If the list is full, compute them from their cosines here."""
    tile = tl.program_id(0)
    across: tl.constexpr = BN // PART_N
    parts: tl.constexpr = across * (BM // PART_M)
    last = parts
    if tl.load(marks + tile) == 0:
        last = 0
    for part in range(last):
        tall = tl.cdiv(rows, BM)
        row = (tile % tall) * BM + (part // across) * PART_M + tl.arange(0, PART_M)
        column = (tile // tall) * BN + (part % across) * PART_N + tl.arange(0, PART_N)
        c = _cosines(xh, xl, yh, yl, row, column, rows, columns, D, PART_M, PART_N, BK)
        counted = _counted(row, column, rows, columns, row_start, column_start, own, TRIANGLE)
        limit = 1.0 - 0.5 * close
        near = counted & (c > limit)
        if HALF or WEIGHTED:
            near = counted & (tl.abs(c) > limit)
        if tl.max(tl.max(near.to(tl.int32), 1), 0) > 0:
            slot = tl.atomic_add(counter + tl.zeros((PART_M, PART_N), tl.int32), 1, mask=near)
            listed = near & (slot < capacity)
            here = tl.broadcast_to((row + row_start)[:, None], (PART_M, PART_N))
            there = tl.broadcast_to((column + column_start)[None, :], (PART_M, PART_N))
            tl.store(pairs + 2 * slot, here, mask=listed)
            tl.store(pairs + 2 * slot + 1, tl.where(c < 0.0, -1 - there, there), mask=listed)
            left = near & (slot >= capacity)
            if tl.max(tl.max(left.to(tl.int32), 1), 0) > 0:
                a, b = _lengths(beta_x, beta_y, row, column, rows, columns, WEIGHTED)
                value, slope = _excess(
                    1.0 - c, 1.0 + c, 1.0 - tl.abs(c), c, a, b, s, floor, close, line,
                    S, ANGULAR, HALF, WEIGHTED, FAST, LINE,
                )  # fmt: skip
                tl.atomic_add(extra, tl.sum(tl.sum(tl.where(left, value, 0.0), 1), 0).to(tl.float64))
                if GRAD:
                    slope = tl.where(left, slope, 0.0)
                    k = tl.arange(0, BK)
                    for step in range(0, dim, BK):
                        mask = (step + k < dim)[None, :]
                        rows_in, columns_in = (row < rows)[:, None] & mask, (column < columns)[:, None] & mask
                        at_x = row[:, None] * dim + step + k[None, :]
                        at_y = column[:, None] * dim + step + k[None, :]
                        points = tl.load(y + at_y, mask=columns_in, other=0.0)
                        tl.atomic_add(grad_x + at_x, tl.dot(slope, points, input_precision="tf32x3"), mask=rows_in)
                        points = tl.load(x + at_x, mask=rows_in, other=0.0)
                        other = tl.dot(tl.trans(slope), points, input_precision="tf32x3")
                        tl.atomic_add(grad_y + at_y, other, mask=columns_in)


@triton.jit
def close_pairs(
    x, y, short_x, short_y,  # vectors of any length, and 1/length in float64
    beta_x, beta_y, line, pairs, counter, partial, grad_x, grad_y,
    D, capacity, s, floor, close,
    S: tl.constexpr, ANGULAR: tl.constexpr, HALF: tl.constexpr, WEIGHTED: tl.constexpr, FAST: tl.constexpr,
    LINE: tl.constexpr, GRAD: tl.constexpr, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The listed pairs, from u = ½‖ŵ_i ∓ ŵ_j‖² = 1 ∓ c.

    The gradient of u is the difference of the vectors itself, taken in float64 and from the vectors before they were
    normalized: unit vectors in float32 would be off by 4e-8, which is 1e-5 of a distance of 0.004.
    """
    pid = tl.program_id(0)
    count = tl.minimum(tl.load(counter), capacity)
    k = tl.arange(0, BLOCK)
    total = tl.zeros((1,), tl.float64)
    for index in range(pid, count, PROGRAMS):
        i = tl.load(pairs + 2 * index).to(tl.int64)
        j = tl.load(pairs + 2 * index + 1).to(tl.int64)
        sign = tl.where(j < 0, -1.0, 1.0)
        j = tl.where(j < 0, -1 - j, j)
        a = 1.0
        b = 0.0
        if WEIGHTED:
            left, right = tl.load(beta_x + i), tl.load(beta_y + j)
            a = left * right
            b = (tl.abs(left) - tl.abs(right)) * (tl.abs(left) - tl.abs(right))
        short, other = tl.load(short_x + i), sign * tl.load(short_y + j)
        squares = tl.zeros((BLOCK,), tl.float64)
        for step in range(0, D, BLOCK):
            mask = step + k < D
            gap = tl.load(x + i * D + step + k, mask=mask, other=0.0) * short
            gap -= tl.load(y + j * D + step + k, mask=mask, other=0.0) * other
            squares += gap * gap
        u = (0.5 * tl.sum(squares, 0)).to(tl.float32)
        v, w = tl.where(sign < 0, 2.0 - u, u), tl.where(sign < 0, u, 2.0 - u)
        value, slope = _excess(
            v, w, u, sign * (1.0 - u), a, b, s, floor, close, line, S, ANGULAR, HALF, WEIGHTED, FAST, LINE
        )  # fmt: skip
        total += value.to(tl.float64)
        if GRAD:
            for step in range(0, D, BLOCK):
                mask = step + k < D
                gap = tl.load(x + i * D + step + k, mask=mask, other=0.0) * short
                gap -= tl.load(y + j * D + step + k, mask=mask, other=0.0) * other
                push = slope * gap.to(tl.float32)
                tl.atomic_add(grad_x + i * D + step + k, -sign * push, mask=mask)
                tl.atomic_add(grad_y + j * D + step + k, push, mask=mask)
    tl.store(partial + pid + tl.arange(0, 1), total)
