"""Triton kernels: products A·Bᵀ of many square matrices of different sizes in one launch.

The matrices of a group are stored one after the other in flat float32 buffers, each padded to a multiple of 32
rows and columns (:class:`hypersphere.functional.orthogonalize.grouped.Layout`). A program computes one tile
of one matrix; ``tiles`` says which, ``table`` has the size, place, first row and number of tiles of every
matrix. Both operands are read along their rows, because the tensor cores take float32 operands only in
this way. Where a transpose is needed, the kernel that computes the matrix stores it transposed.

Precise products split each operand into two TF32 parts and add three products, which gives the error of float32;
the others round operands to TF32. Neither depends on ``torch.set_float32_matmul_precision``.
"""

from __future__ import annotations

import triton
import triton.language as tl

COLUMNS = tl.constexpr(4)  # of a row of `table`: size, place, first row, number of tiles


@triton.jit
def locate(index, tiles, table):
    """Matrix, tile row, tile column, size, place, first row and number of tiles of tile ``index``."""
    p = tl.load(tiles + 3 * index)
    i, j = tl.load(tiles + 3 * index + 1), tl.load(tiles + 3 * index + 2)
    row = table + p * COLUMNS
    size = tl.multiple_of(tl.load(row).to(tl.int32), 32)
    place = tl.multiple_of(tl.load(row + 1), 32)
    return p, i, j, size, place, tl.load(row + 2), tl.load(row + 3)


@triton.jit
def multiply(a, b, i, j, size, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISE: tl.constexpr):
    """Tile (i, j) of A·Bᵀ; rows beyond the matrix repeat its first ones, and are not stored."""
    return _multiply(a, b, i, j, size, 0, size, BM, BN, BK, PRECISE)


@triton.jit
def _multiply(
    a, b, i, j, size, begin, end, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISE: tl.constexpr
):
    """The same, summed only over the columns from ``begin`` to ``end``, which are multiples of 32."""
    row = (i * BM + tl.arange(0, BM)) % size
    col = (j * BN + tl.arange(0, BN)) % size
    k = begin + tl.arange(0, BK)
    left = a + row[:, None] * size + k[None, :]
    right = b + col[None, :] * size + k[:, None]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(begin, end, BK):
        x, y = tl.load(left), tl.load(right)
        if x.dtype == tl.float16:
            total = tl.dot(x, y, total)
        elif PRECISE:
            total = tl.dot(x, y, total, input_precision="tf32x3")
        else:
            total = tl.dot(x, y, total, input_precision="tf32")
        left += BK
        right += BK
    return total


@triton.jit
def product_kernel(
    a, b, c, out, out_t, gate, sigma, tiles, table, alpha, beta, gamma,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PRECISE: tl.constexpr,
    ADDEND: tl.constexpr, STORE: tl.constexpr, MIRROR: tl.constexpr,
    BEGIN: tl.constexpr, END: tl.constexpr, GATED: tl.constexpr, DIVIDED: tl.constexpr,
):  # fmt: skip
    """α·A·Bᵀ + β·C + γ·I. ADDEND: 0 no C, 1 C, 2 Cᵀ. STORE: 1 the product, 2 its transpose, 3 both.

    Triangular factors limit the sum. BEGIN 1: A's columns before the tile's rows are 0. BEGIN 2: B's columns before the
    tile's columns are 0. END 2: B's columns after them are 0. END 3: only columns before the tile's rows count.
    GATED multiplies each matrix by its number in ``gate``, NaN for one that failed; 2: but not its transpose. DIVIDED
    divides entry (i, j) by σᵢ + σⱼ, where that is not 0.

    MIRROR 1 or −1: the result is symmetric or skew. Tiles with j ≥ i are computed, their mirror images stored, equal
    to the last bit: iterations that rely on a symmetry amplify rounding errors that break it.
    """
    p, i, j, size, place, first, _ = locate(tl.program_id(0), tiles, table)
    begin = i * BM if BEGIN == 1 else j * BN if BEGIN == 2 else 0
    end = tl.minimum(size, (j + 1) * BN) if END == 2 else i * BM if END == 3 else size
    total = alpha * _multiply(a + place, b + place, i, j, size, begin, end, BM, BN, BK, PRECISE)
    row, col = i * BM + tl.arange(0, BM)[:, None], j * BN + tl.arange(0, BN)[None, :]
    inside = (row < size) & (col < size)
    if ADDEND == 1:
        total += beta * tl.load(c + place + row * size + col, mask=inside, other=0.0)
    if ADDEND == 2:
        total += beta * tl.load(c + place + col * size + row, mask=inside, other=0.0)
    total += tl.where(row == col, gamma, 0.0)
    if DIVIDED:
        across = tl.load(sigma + first + i * BM + tl.arange(0, BM), mask=i * BM + tl.arange(0, BM) < size, other=0.0)
        down = tl.load(sigma + first + j * BN + tl.arange(0, BN), mask=j * BN + tl.arange(0, BN) < size, other=0.0)
        both = across[:, None] + down[None, :]
        total = tl.where(both > 0.0, total / tl.where(both > 0.0, both, 1.0), 0.0)
    if GATED == 1:
        total *= tl.load(gate + p)
    if MIRROR != 0:
        if i == j:
            total = 0.5 * (total + MIRROR * tl.trans(total))
        tl.store(out + place + row * size + col, total, mask=inside)
        if i != j:
            tl.store(out + place + col * size + row, MIRROR * total, mask=inside)
    else:
        if STORE & 2:
            tl.store(out_t + place + col * size + row, total, mask=inside)
        if GATED == 2:
            total *= tl.load(gate + p)
        if STORE & 1:
            tl.store(out + place + row * size + col, total, mask=inside)


@triton.jit
def turn_kernel(
    x, r, out, widths, jobs, table, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BACK: tl.constexpr
):
    """X·Rᵀ of the rows X beside each matrix, or X·R with BACK; ``widths`` has their number and place."""
    p, i, j, size, place, _, _ = locate(tl.program_id(0), jobs, table)
    count, start = tl.load(widths + 2 * p).to(tl.int32), tl.multiple_of(tl.load(widths + 2 * p + 1), 32)
    row, col = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    across = x + start + tl.minimum(row, count - 1)[:, None] * size + k[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    if BACK:
        down = r + place + k[:, None] * size + col[None, :]
        for _ in range(0, size, BK):
            y = tl.load(down, mask=(col < size)[None, :], other=0.0)
            total = tl.dot(tl.load(across), y, total, input_precision="tf32x3")
            across += BK
            down += BK * size
    else:
        down = r + place + (col % size)[None, :] * size + k[:, None]
        for _ in range(0, size, BK):
            total = tl.dot(tl.load(across), tl.load(down), total, input_precision="tf32x3")
            across += BK
            down += BK
    inside = (row < count)[:, None] & (col < size)[None, :]
    tl.store(out + start + row[:, None] * size + col[None, :], total, mask=inside)


@triton.jit
def thin_kernel(
    p, v, out, widths, tiles, table,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """N − Nᵀ with N = PᵀV; P and V are the rows beside each matrix, ``widths`` has their number and place.

    PART 1: Nᵀ − N above the diagonal and 0 elsewhere in the tiles j ≥ i; the other tiles are left as they are.
    PART 2: ½(N − Nᵀ) below the diagonal and 0 elsewhere.
    """
    m, i, j, size, place, _, _ = locate(tl.program_id(0), tiles, table)
    count, start = tl.load(widths + 2 * m).to(tl.int32), tl.multiple_of(tl.load(widths + 2 * m + 1), 32)
    if PART == 2:
        i, j = j, i
    row, col = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, count, BK):
        k = first + tl.arange(0, BK)
        across = start + k[None, :] * size + row[:, None]
        down = start + k[:, None] * size + col[None, :]
        left, right = (k < count)[None, :] & (row < size)[:, None], (k < count)[:, None] & (col < size)[None, :]
        x, y = tl.load(p + across, mask=left, other=0.0), tl.load(v + down, mask=right, other=0.0)
        total = tl.dot(x, y, total, input_precision="tf32x3")
        x, y = tl.load(v + across, mask=left, other=0.0), tl.load(p + down, mask=right, other=0.0)
        total = tl.dot(-x, y, total, input_precision="tf32x3")
    inside = (row[:, None] < size) & (col[None, :] < size)
    here = out + place + row[:, None] * size + col[None, :]
    if PART == 0:
        if i == j:
            total = 0.5 * (total - tl.trans(total))
        tl.store(here, total, mask=inside)
        if i != j:
            tl.store(out + place + col[None, :] * size + row[:, None], -total, mask=inside)
    elif PART == 1:
        tl.store(here, tl.where(row[:, None] < col[None, :], -total, 0.0), mask=inside)
    else:
        tl.store(here, tl.where(row[:, None] > col[None, :], 0.5 * total, 0.0), mask=inside)
        if i != j:
            above, beyond = j * BN + tl.arange(0, BM), i * BM + tl.arange(0, BN)
            inside = (above[:, None] < size) & (beyond[None, :] < size)
            zeros = tl.zeros((BM, BN), tl.float32)
            tl.store(out + place + above[:, None] * size + beyond[None, :], zeros, mask=inside)


@triton.jit
def skew_kernel(u, n, sizes, tiles, table, B: tl.constexpr):
    """N = I + A with A = tril(U,−1) − tril(U,−1)ᵀ; the largest row sum of |N| and of N² in ``sizes``.

    A program takes B rows.
    """
    p, i, _, size, place, _, _ = locate(tl.program_id(0), tiles, table)
    row = i * B + tl.arange(0, B)[:, None]
    absolute, square = tl.zeros((B,), tl.float32), tl.zeros((B,), tl.float32)
    for start in range(0, size, B):
        col = start + tl.arange(0, B)[None, :]
        lower = tl.load(u + place + row * size + col, mask=row > col, other=0.0)
        upper = tl.load(u + place + col * size + row, mask=row < col, other=0.0)
        x = tl.where(row == col, 1.0, lower - upper)
        tl.store(n + place + row * size + col, x)
        absolute += tl.sum(tl.abs(x), 1)
        square += tl.sum(x * x, 1)
    tl.atomic_max(sizes + 2 * p, tl.max(finite(absolute)))
    tl.atomic_max(sizes + 2 * p + 1, tl.max(finite(square)))


@triton.jit
def finite(x):
    """Replace NaN by a large number, so that a maximum does not lose it."""
    return tl.where(x < 1e30, x, 1e30)
