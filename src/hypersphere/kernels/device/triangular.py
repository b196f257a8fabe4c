"""Triton kernels around triangular factors: their inverses, the last correction of Q, and the sign of its last column.

Matrices lie in the flat buffers of :mod:`hypersphere.kernels.device.products`, padded to multiples of 32. The inverse
of a lower triangular L comes from those of its diagonal blocks by doubling: with L = [[A, 0], [B, C]] the missing
block is −C⁻¹BA⁻¹, two products for all blocks of a size at once.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .products import finite, locate

JOB = tl.constexpr(7)


@triton.jit
def diagonal_kernel(l, z, tiles, table, B: tl.constexpr):
    """The inverses of the B×B blocks on the diagonal of L; a row of zeros, such as padding, becomes a row of I."""
    _, i, _, size, place, _, _ = locate(tl.program_id(0), tiles, table)
    at, line_at = tl.arange(0, B), tl.arange(0, B)
    row, col = at[:, None], line_at[None, :]
    here = place + (i * B + row) * size + i * B + col
    block = tl.load(l + here)
    inverse = tl.where(row == col, 1.0, 0.0)
    for r in range(B):
        column = tl.sum(tl.where(col == r, block, 0.0), 1)
        pivot = tl.sum(tl.where(at == r, column, 0.0))
        line = tl.sum(tl.where(row == r, inverse, 0.0), 0) / tl.where(pivot == 0.0, 1.0, pivot)
        below = tl.where(row > r, column[:, None] * line[None, :], 0.0)
        inverse = tl.where(row == r, line[None, :], inverse - below)
    tl.store(z + here, inverse)


@triton.jit
def block_kernel(a, b, out, jobs, table, alpha, B: tl.constexpr, BK: tl.constexpr):
    """A tile of α·A·B inside each matrix; a job is matrix, first row and column, their ends, first and last k."""
    job = jobs + JOB * tl.program_id(0)
    p = tl.load(job)
    row = tl.load(job + 1) + tl.arange(0, B)[:, None]
    col = tl.load(job + 2) + tl.arange(0, B)[None, :]
    last_row, last_col = tl.load(job + 3), tl.load(job + 4)
    begin, end = tl.load(job + 5), tl.load(job + 6)
    size, place = tl.load(table + 4 * p).to(tl.int32), tl.load(table + 4 * p + 1)
    k = tl.arange(0, BK)
    total = tl.zeros((B, B), tl.float32)
    for start in range(begin, end, BK):
        x = tl.load(a + place + row * size + (start + k)[None, :], mask=row < last_row, other=0.0)
        y = tl.load(b + place + (start + k)[:, None] * size + col, mask=col < last_col, other=0.0)
        total = tl.dot(x, y, total, input_precision="tf32x3")
    tl.store(out + place + row * size + col, alpha * total, mask=(row < last_row) & (col < last_col))


@triton.jit
def series_kernel(gram, out, worst, sizes, tiles, table, one, B: tl.constexpr, BM: tl.constexpr):
    """tril(E, −1) + ½diag(E) with E = QᵀQ − I; a program takes B rows.

    This is the transpose of the correction K: Q − QK has an error of E². With ``one`` 1 the result is I minus it; with
    ``one`` 2 the same without the last tile, where E may be large. ``worst`` becomes the largest squared row norm.
    """
    p, i, _, size, place, _, _ = locate(tl.program_id(0), tiles, table)
    true = tl.load(sizes + p)
    row = i * B + tl.arange(0, B)[:, None]
    corner = (size - 1) // BM * BM
    square = tl.zeros((B,), tl.float32)
    for start in range(0, size, B):
        col = start + tl.arange(0, B)[None, :]
        at = place + row * size + col
        e = tl.load(gram + at) - tl.where((row == col) & (row < true), 1.0, 0.0)
        lower = tl.where(row > col, e, tl.where(row == col, 0.5 * e, 0.0))
        lower = tl.where((one > 1.0) & (col >= corner), 0.0, lower)
        square += tl.sum(lower * lower, 1)
        tl.store(out + at, tl.where(one > 0.0, tl.where(row == col, 1.0, 0.0) - lower, lower))
    tl.atomic_max(worst + p, tl.max(finite(square)))


@triton.jit
def moved_kernel(old, new, moved, sizes, tiles, table, B: tl.constexpr, LAST: tl.constexpr):
    """Add ‖Q_new − Q_old‖² over all but the LAST columns; a program takes B rows."""
    p, i, _, size, place, _, _ = locate(tl.program_id(0), tiles, table)
    end = tl.load(sizes + p) - LAST
    row = i * B + tl.arange(0, B)[:, None]
    total = tl.zeros((B, B), tl.float32)
    for start in range(0, end, B):
        col = start + tl.arange(0, B)[None, :]
        at = place + row * size + col
        change = tl.load(new + at, mask=col < end, other=0.0) - tl.load(old + at, mask=col < end, other=0.0)
        total += change * change
    tl.atomic_add(moved + p, tl.sum(total))


@triton.jit
def turn_kernel(old, new, moved, flip, sizes, table, LAST: tl.constexpr, BK: tl.constexpr):
    """The sign of det Q_oldᵀQ_new: that of its last LAST rows and columns D, by elimination; NaN where unknown.

    Complementary minors of an orthogonal matrix M agree up to det M. The first one is QᵀQ_new of columns that moved by
    less than 1 in all, which is nearer to I than 1 and so has a positive determinant.
    """
    p = tl.program_id(0)
    true, size = tl.load(sizes + p), tl.load(table + 4 * p).to(tl.int32)
    place = tl.load(table + 4 * p + 1)
    at = tl.arange(0, LAST)
    row, col = at[:, None], tl.arange(0, LAST)[None, :]
    first = true - LAST
    k = tl.arange(0, BK)
    m = tl.zeros((LAST, LAST), tl.float32)
    for start in range(0, size, BK):
        left = old + place + (start + k)[None, :] * size + first + row
        right = new + place + (start + k)[:, None] * size + first + col
        x = tl.load(left, mask=first + row >= 0, other=0.0)
        y = tl.load(right, mask=first + col >= 0, other=0.0)
        m = tl.dot(x, y, m, input_precision="tf32x3")
    m = tl.where((row == col) & (first + row < 0), 1.0, m)
    sign = 1.0
    left_rows = tl.full((LAST,), 1, tl.int32)  # 1: not used as a pivot row yet
    for j in range(LAST):
        column = tl.sum(tl.where(col == j, m, 0.0), 1)
        size_of = tl.where((left_rows == 1) & (tl.abs(column) >= 0.0), tl.abs(column), -1.0)  # NaN is never a pivot
        chosen = tl.argmax(size_of, 0)
        pivot = tl.sum(tl.where(at == chosen, column, 0.0))
        before = tl.sum(tl.where((at < chosen) & (left_rows == 1), 1, 0))
        sign = sign * tl.where(pivot > 0.0, 1.0, tl.where(pivot < 0.0, -1.0, float("nan")))
        sign = tl.where(before % 2 == 1, -sign, sign)
        line = tl.sum(tl.where(row == chosen, m, 0.0), 0)
        left_rows = tl.where(at == chosen, 0, left_rows)
        factor = tl.where(left_rows == 1, column / pivot, 0.0)
        m = m - factor[:, None] * line[None, :]
    tl.store(flip + p, tl.where(tl.load(moved + p) < 0.9, sign, float("nan")))


@triton.jit
def flip_kernel(q, inverse, inverse_t, flip, failed, sizes, tiles, table, B: tl.constexpr):
    """The last column of Q and T⁻¹ times ±1; a program takes B rows. A NaN is reported in ``failed``."""
    p, i, _, size, place, _, _ = locate(tl.program_id(0), tiles, table)
    last = tl.load(sizes + p) - 1
    sign = tl.load(flip + p)
    row = i * B + tl.arange(0, B)
    across, down = place + row * size + last, place + last * size + row
    tl.store(q + across, sign * tl.load(q + across))
    tl.store(inverse + across, sign * tl.load(inverse + across))
    tl.store(inverse_t + down, sign * tl.load(inverse_t + down))
    if i == 0:
        if sign != sign:
            tl.store(failed + p, 1)
