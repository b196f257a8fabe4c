"""Triton kernels of the warm-started Cayley map: X → (I − A)⁻¹ by Newton's iteration, decided on the device.

A step is two launches: the residual E = I − X(I − A), then X ← X + EX. The program that finishes the last tile
of a residual examines its rows and columns and writes into ``control`` what to do next: stop after this update,
continue, or start again from a multiple of (I − A)ᵀ, from which the iteration always converges. Steps that are not
needed read this and return. The host never takes part, whether a CUDA graph is recorded or not.

    ‖E_{k+1}‖ ≤ ‖E_k‖², entry by entry |E²| ≤ (largest row norm)·(largest column norm)

From a cold start the eigenvalues t of X(I − A) lie in [a, 1]; X ← c(2−c)X + c²EX with c = 2/(a+1) takes them
to [ca(2−ca), 1], four times nearer to 1 for small a (a Chebyshev step; c = 1 is Newton's).
"""

from __future__ import annotations

import triton
import triton.language as tl

from .products import locate, multiply

FIELDS = 12
WIDTH = tl.constexpr(FIELDS)  # length of a row of `control`, which has one row for each step and matrix
ACTIVE = tl.constexpr(0)
PARITY = tl.constexpr(1)  # which of the two buffers holds the valid X
PRECISE = tl.constexpr(2)
COLD = tl.constexpr(3)
LOWER = tl.constexpr(4)  # a
BEFORE = tl.constexpr(5)  # ‖E‖²_F of the step before
ACTION = tl.constexpr(6)  # of the update: 0 nothing, 1 Newton, 2 start again
OLD = tl.constexpr(7)  # factor of X
NEW = tl.constexpr(8)  # factor of EX, or of (I − A)ᵀ
FIRST = tl.constexpr(9)  # largest row norm of the first residual, squared
USED = tl.constexpr(10)  # steps so far
UNIT = tl.constexpr(1099511627776.0)  # 2^40: sums are kept as integers, so the order of addition does not matter
LIMIT = tl.constexpr(65536.0)
NEAR = tl.constexpr(0.01)  # squared row norm of a residual below which the next one is computed precisely
LARGE = tl.constexpr(16.0)  # squared row norm of I − A beyond which rounding makes a polishing step necessary


@triton.jit
def residual_kernel(
    x, n, e, tiles, table, control, sums, counter, sizes, step, total, problems, rows, tolerance, gain, number,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """E = I − X·Nᵀ with Nᵀ = I − A, and the decision what to do next.

    With FEW, few programs share all tiles, so that skipped steps return sooner.
    """
    if FEW:
        for index in range(tl.program_id(0), number, tl.num_programs(0)):
            _residual(
                index, x, n, e, tiles, table, control, sums, counter, sizes, step, total, problems, rows, tolerance,
                gain, BM, BN, BK,
            )  # fmt: skip
    else:
        _residual(
            tl.program_id(0), x, n, e, tiles, table, control, sums, counter, sizes, step, total, problems, rows,
            tolerance, gain, BM, BN, BK,
        )  # fmt: skip


@triton.jit
def _residual(
    index, x, n, e, tiles, table, control, sums, counter, sizes, step, total, problems, rows, tolerance, gain,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    p, i, j, size, place, first, count = locate(index, tiles, table)
    state = control + (step * problems + p) * WIDTH
    if tl.load(state + ACTIVE) > 0:
        side = tl.load(state + PARITY).to(tl.int64) * total
        if tl.load(state + PRECISE) > 0:
            product = multiply(x + side + place, n + place, i, j, size, BM, BN, BK, True)
        else:
            product = gain * multiply(x + side + place, n + place, i, j, size, BM, BN, BK, False)
        row, col = i * BM + tl.arange(0, BM), j * BN + tl.arange(0, BN)
        inside = (row[:, None] < size) & (col[None, :] < size)
        residual = tl.where(row[:, None] == col[None, :], 1.0, 0.0) - product
        tl.store(e + place + (row[:, None] * size + col[None, :]), residual, mask=inside)
        square = tl.where(inside, residual * residual, 0.0)
        here = sums + step * 2 * rows + first
        tl.atomic_add(here + row, _counted(tl.sum(square, 1)), mask=row < size)
        tl.atomic_add(here + rows + col, _counted(tl.sum(square, 0)), mask=col < size)
        tl.debug_barrier()
        if tl.atomic_add(counter + step * problems + p, 1) == count - 1:
            _decide(state, state + problems * WIDTH, here, rows, size, sizes + 2 * p, step, tolerance)
    else:
        if (i == 0) & (j == 0):  # nothing more to do in the next step either
            after = state + problems * WIDTH
            tl.store(after + ACTIVE, 0.0)
            tl.store(after + ACTION, 0.0)
            tl.store(after + PARITY, tl.load(state + PARITY))
            tl.store(after + FIRST, tl.load(state + FIRST))
            tl.store(after + USED, tl.load(state + USED))


@triton.jit
def _counted(x):
    return (tl.where(x < LIMIT, x, LIMIT) * UNIT).to(tl.int64)


@triton.jit
def _decide(state, after, sums, rows, size, sizes, step, tolerance):
    by_row, by_column, whole = 0.0, 0.0, 0.0
    for start in range(0, size, 256):
        at = start + tl.arange(0, 256)
        across = tl.load(sums + at, mask=at < size, other=0, cache_modifier=".cg").to(tl.float32) / UNIT
        down = tl.load(sums + rows + at, mask=at < size, other=0, cache_modifier=".cg").to(tl.float32) / UNIT
        by_row = tl.maximum(by_row, tl.max(across))
        by_column = tl.maximum(by_column, tl.max(down))
        whole += tl.sum(across)
    precise, cold, lower = tl.load(state + PRECISE), tl.load(state + COLD), tl.load(state + LOWER)
    bound = tl.sqrt(by_row * by_column)
    # from a cold start E is a function of A, and the bound is tight
    done = (precise > 0) & (bound <= tl.where(cold > 0, 0.4, 1.0) * tolerance)
    growing = (whole > 0.5 * tl.load(state + BEFORE)) & (by_row > 1e-3)
    stuck = (cold == 0) & tl.where(step == 0, by_row > 0.25, growing)
    again = (stuck | (by_row >= LIMIT)) & (done == 0)
    largest = tl.load(sizes)
    start = 1.0 / (largest * largest)
    c = tl.where((cold > 0) & (lower < 0.5), 2.0 / (lower + 1.01), 1.0)
    tl.store(state + ACTION, tl.where(again, 2.0, 1.0))
    tl.store(state + OLD, c * (2.0 - c))
    tl.store(state + NEW, tl.where(again, start, c * c))
    tl.store(after + ACTIVE, tl.where(done, 0.0, 1.0))
    tl.store(after + ACTION, 0.0)
    tl.store(after + PARITY, 1.0 - tl.load(state + PARITY))
    tl.store(after + PRECISE, tl.where((again == 0) & (by_row <= NEAR) | (tl.load(sizes + 1) > 4096.0), 1.0, 0.0))
    tl.store(after + COLD, tl.where(again, 1.0, cold))
    tl.store(after + LOWER, tl.where(again, start, tl.where(cold > 0, c * lower * (2.0 - c * lower), 0.0)))
    tl.store(after + BEFORE, whole)
    tl.store(after + FIRST, tl.where(step == 0, by_row, tl.load(state + FIRST)))
    tl.store(after + USED, step + 1.0)


@triton.jit
def update_kernel(
    e, x, x_t, n, tiles, table, control, step, total, problems, number,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """X ← old·X + new·EX in the other buffer, with its transpose; or X ← new·N to start again."""
    if FEW:
        for index in range(tl.program_id(0), number, tl.num_programs(0)):
            _update(index, e, x, x_t, n, tiles, table, control, step, total, problems, BM, BN, BK)
    else:
        _update(tl.program_id(0), e, x, x_t, n, tiles, table, control, step, total, problems, BM, BN, BK)


@triton.jit
def _update(
    index, e, x, x_t, n, tiles, table, control, step, total, problems,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    p, i, j, size, place, _, _ = locate(index, tiles, table)
    state = control + (step * problems + p) * WIDTH
    action = tl.load(state + ACTION)
    if action > 0:
        parity = tl.load(state + PARITY).to(tl.int64)
        new = tl.load(state + NEW)
        row, col = i * BM + tl.arange(0, BM)[:, None], j * BN + tl.arange(0, BN)[None, :]
        inside = (row < size) & (col < size)
        here, there = parity * total + place, (1 - parity) * total + place
        if action == 1:
            product = multiply(e + place, x_t + here, i, j, size, BM, BN, BK, False)
            old = tl.load(x + here + (row * size + col), mask=inside, other=0.0)
            value = tl.load(state + OLD) * old + new * product
        else:
            value = new * tl.load(n + place + (row * size + col), mask=inside, other=0.0)
        tl.store(x + there + (row * size + col), value, mask=inside)
        tl.store(x_t + there + (col * size + row), value, mask=inside)


@triton.jit
def gram_kernel(
    x, x_t, e, tiles, table, control, sizes, total, last, problems,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """½(I − RᵀR) = X + Xᵀ − 2XᵀX for an R = 2X − I that rounding may have made less orthogonal."""
    p, i, j, size, place, _, _ = locate(tl.program_id(0), tiles, table)
    if tl.load(sizes + 2 * p + 1) > LARGE:
        side = tl.load(control + (last * problems + p) * WIDTH + PARITY).to(tl.int64) * total
        product = multiply(x_t + side + place, x_t + side + place, i, j, size, BM, BN, BK, True)
        row, col = i * BM + tl.arange(0, BM)[:, None], j * BN + tl.arange(0, BN)[None, :]
        inside = (row < size) & (col < size)
        at = row * size + col
        both = tl.load(x + side + place + at, mask=inside, other=0.0)
        both += tl.load(x_t + side + place + at, mask=inside, other=0.0)
        tl.store(e + place + at, both - 2.0 * product, mask=inside)


@triton.jit
def finish_kernel(
    x, e, r, tiles, table, control, sizes, failed, total, last, problems,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """R = 2X − I (polished: R + R·½(I − RᵀR)); NaN where the steps did not suffice.

    Leaves ``control`` ready for the next call.
    """
    p, i, j, size, place, _, _ = locate(tl.program_id(0), tiles, table)
    state = control + (last * problems + p) * WIDTH
    unfinished = tl.load(state + ACTIVE) > 0
    parity = tl.load(state + PARITY)
    side = parity.to(tl.int64) * total
    row, col = i * BM + tl.arange(0, BM)[:, None], j * BN + tl.arange(0, BN)[None, :]
    inside = (row < size) & (col < size)
    at = row * size + col
    value = 2.0 * tl.load(x + side + place + at, mask=inside, other=0.0) - tl.where(row == col, 1.0, 0.0)
    if tl.load(sizes + 2 * p + 1) > LARGE:
        product = multiply(x + side + place, e + place, i, j, size, BM, BN, BK, False)
        value += 2.0 * product - tl.load(e + place + at, mask=inside, other=0.0)
    value = tl.where(unfinished, float("nan"), value)
    tl.store(r + place + at, value, mask=inside)
    if (i == 0) & (j == 0):
        tl.store(failed + p, tl.where(unfinished, 1, tl.load(failed + p)))
        tl.store(control + p * WIDTH + ACTIVE, 1.0)
        tl.store(control + p * WIDTH + PARITY, parity)
        small = tl.load(state + FIRST) <= 2.5e-7  # so small that one precise step would have been enough
        tl.store(control + p * WIDTH + PRECISE, tl.where(small, 1.0, 0.0))
        tl.store(control + p * WIDTH + COLD, 0.0)
        tl.store(control + p * WIDTH + LOWER, 0.0)
        tl.store(control + p * WIDTH + BEFORE, 0.0)
