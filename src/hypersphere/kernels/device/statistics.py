"""BatchNorm's sums: the two passes that sum over positions, and the table that their last program computes.

forward:   ΣF, ΣF²        → mean, 1/√(var+ε), A, B; the running statistics are updated
backward:  Σdu, Σdu·F     → what the statistics add to dF, dγ and dβ
"""

from __future__ import annotations

import triton
import triton.language as tl

from .math import angular_value, pulled
from .tiles import add_to_row, channel_numbers, folded, leak_of, map_at, norm_numbers, place_of, tile_at

# rows of sums, SLOTS times each: ΣF, ΣF², Σdu, Σdu·F, the gradients of the slope, a, b and k; then the count of
# positions (of several processes), Σn, the gradient of the radius, how many programs of stats and reduce have ended
TRAIN = tl.constexpr(1)


@triton.jit
def _rows(sums, ROW: tl.constexpr, col, C, SLOTS: tl.constexpr):
    """Two neighbouring rows of sums, added up over their copies; both are loaded before either is used."""
    slot = tl.arange(0, SLOTS)
    place = sums + (ROW * SLOTS + slot)[:, None] * C + col[None, :]
    ok = (col < C)[None, :]
    one = tl.load(place, mask=ok, other=0.0, cache_modifier=".cg")
    other = tl.load(place + SLOTS * C, mask=ok, other=0.0, cache_modifier=".cg")
    return tl.sum(one, 0), tl.sum(other, 0)


@triton.jit
def _at(vector, col, ok):
    """A per-channel vector in float32, 0 beyond the last channel."""
    if vector is None:
        return 0.0
    else:
        return tl.load(vector + col, mask=ok, other=0.0).to(tl.float32)


@triton.jit
def _is_last(counter):
    """Whether this program is the last to arrive; it then sees what all others have added."""
    tl.debug_barrier()
    before = tl.atomic_add(counter, 1.0, sem="acq_rel")
    return before == (tl.num_programs(0) * tl.num_programs(1) - 1).to(tl.float64)


@triton.jit
def _finish_statistics(
    sums, table, gamma, beta, mean, var, tracked, C, count, eps, momentum,
    UPDATE: tl.constexpr, SLOTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """From ΣF and ΣF² to the rows mean, 1/√(var+ε), A, B of the table; the running statistics are updated.

    A single program does this while the rest of the GPU waits, so all loads come first.
    """
    seen = 0
    if UPDATE:
        if tracked is not None:
            seen = tl.load(tracked)
    for c0 in range(0, C, BLOCK):
        col = c0 + tl.arange(0, BLOCK)
        ok = col < C
        weight = _at(gamma, col, ok)
        bias = _at(beta, col, ok)
        if UPDATE:
            old_mean = _at(mean, col, ok)
            old_var = _at(var, col, ok)
        first, second = _rows(sums, 0, col, C, SLOTS)
        m = first / count
        v = second / count - m * m
        v = tl.where(v < 0.0, 0.0, v)
        mean32 = m.to(tl.float32)
        over = 1.0 / tl.sqrt_rn(v.to(tl.float32) + eps)
        scale = over
        shift = -mean32 * over
        if gamma is not None:
            scale = over * weight
            shift = bias - mean32 * scale
        tl.store(table + col, mean32, mask=ok)
        tl.store(table + C + col, over, mask=ok)
        tl.store(table + 2 * C + col, scale, mask=ok)
        tl.store(table + 3 * C + col, shift, mask=ok)
        if UPDATE:
            unbiased = (v * (count / tl.where(count > 1.0, count - 1.0, 1.0))).to(tl.float32)
            tl.store(mean + col, (old_mean + (mean32 - old_mean) * momentum).to(mean.dtype.element_ty), mask=ok)
            tl.store(var + col, (old_var + (unbiased - old_var) * momentum).to(var.dtype.element_ty), mask=ok)
    if UPDATE:
        if tracked is not None:
            tl.store(tracked, seen + 1)


@triton.jit
def _finish_gradients(sums, table, rest, dgamma, dbeta, C, count, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    """From Σdu and Σdu·F to what BatchNorm's statistics add to dF, level + tilt·F, and to dγ and dβ."""
    for c0 in range(0, C, BLOCK):
        col = c0 + tl.arange(0, BLOCK)
        ok = col < C
        m = tl.load(table + col, mask=ok, other=0.0)
        over = tl.load(table + C + col, mask=ok, other=0.0)
        scale = tl.load(table + 2 * C + col, mask=ok, other=0.0)
        total, along = _rows(sums, 2, col, C, SLOTS)
        along = along - m.to(tl.float64) * total
        tilt = -scale * over * over * (along / count).to(tl.float32)
        tl.store(rest + col, -scale * (total / count).to(tl.float32) - tilt * m, mask=ok)
        tl.store(rest + C + col, tilt, mask=ok)
        if dgamma is not None:
            tl.store(dgamma + col, (along.to(tl.float32) * over).to(dgamma.dtype.element_ty), mask=ok)
            tl.store(dbeta + col, total.to(dbeta.dtype.element_ty), mask=ok)


@triton.jit
def finish_kernel(
    sums, table, rest, gamma, beta, mean, var, tracked, dgamma, dbeta,
    C, eps, momentum,
    BACKWARD: tl.constexpr, UPDATE: tl.constexpr, SLOTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The end of :func:`stats_kernel` or :func:`reduce_kernel` after adding the sums of several processes."""
    count = tl.load(sums + 8 * SLOTS * C)
    if BACKWARD:
        _finish_gradients(sums, table, rest, dgamma, dbeta, C, count, SLOTS, BLOCK)
    else:
        _finish_statistics(sums, table, gamma, beta, mean, var, tracked, C, count, eps, momentum, UPDATE, SLOTS, BLOCK)


@triton.jit
def stats_kernel(
    y, r, s, k, a, b, sums, table, gamma, beta, mean, var, tracked,
    TILES, L, C, half, top, count, eps, momentum,
    G: tl.constexpr, UPDATE: tl.constexpr, FINISH: tl.constexpr, SLOTS: tl.constexpr, CL: tl.constexpr,
    FAST: tl.constexpr, GROUPS: tl.constexpr, BL: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """ΣF and ΣF² of every channel; the last program computes BatchNorm's table from them."""
    col = tl.program_id(1) * BC + tl.arange(0, BC)
    row = tl.arange(0, BL)
    hv, tv, scale, shift = channel_numbers(k, a, b, col, C, half, top)
    now, later = folded(tv, s, a, b, G)
    first_sum = tl.zeros([BL, BC], tl.float32)
    second_sum = tl.zeros([BL, BC], tl.float32)
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        image, first, left = tile_at(tile, L, BL, CL)
        inside = row < left
        mask = inside[:, None] & (col < C)[None, :]
        start, place = place_of(image, first, row, col, L, C, CL)
        v = tl.load(y + start + place, mask=mask, other=0.0).to(tl.float32)
        if r is not None:
            v = v * map_at(r, image, first, row, col, L, C, GROUPS, inside, mask, CL)
        f = angular_value(v, hv, G, FAST, k is not None) * now
        if s is not None:
            f = f * map_at(s, image, first, row, col, L, C, GROUPS, inside, mask, CL)
        if a is not None:
            f = f * scale
        if b is not None:
            f = tl.where(mask, f + shift, 0.0)
        first_sum += f
        second_sum += f * f
    add_to_row(sums, tl.sum(first_sum * later, 0), 0, col, C, SLOTS)
    add_to_row(sums, tl.sum(second_sum * (later * later), 0), 1, col, C, SLOTS)
    if FINISH:
        if _is_last(sums + 8 * SLOTS * C + 3):
            _finish_statistics(
                sums, table, gamma, beta, mean, var, tracked, C, count, eps, momentum, UPDATE, SLOTS, 128
            )


@triton.jit
def reduce_kernel(
    y, r, s, k, a, b, sums, table, rest, leaks, dz, dq, dgamma, dbeta,
    TILES, L, C, half, top, count, leak,
    G: tl.constexpr, ACT: tl.constexpr, FINISH: tl.constexpr, SLOTS: tl.constexpr, CL: tl.constexpr,
    FAST: tl.constexpr, GROUPS: tl.constexpr, BL: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """Σdu, Σdu·F and the gradient of a slope per channel, for BatchNorm in training; then the rest of its table."""
    col = tl.program_id(1) * BC + tl.arange(0, BC)
    row = tl.arange(0, BL)
    hv, tv, scale, shift = channel_numbers(k, a, b, col, C, half, top)
    big, lift = norm_numbers(None, None, None, None, table, col, C, 0.0, TRAIN)
    now, later = folded(tv, s, a, b, G)
    steep = big[None, :] * later
    lv = leak_of(leaks, leak, col, C)
    sum_u = tl.zeros([BL, BC], tl.float32)
    sum_uf = tl.zeros([BL, BC], tl.float32)
    if leaks is not None:
        sum_leak = tl.zeros([BL, BC], tl.float32)
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        image, first, left = tile_at(tile, L, BL, CL)
        inside = row < left
        mask = inside[:, None] & (col < C)[None, :]
        start, place = place_of(image, first, row, col, L, C, CL)
        v = tl.load(y + start + place, mask=mask, other=0.0).to(tl.float32)
        du = tl.load(dz + start + place, mask=mask, other=0.0).to(tl.float32)
        if r is not None:
            v = v * map_at(r, image, first, row, col, L, C, GROUPS, inside, mask, CL)
        f = angular_value(v, hv, G, FAST, k is not None) * now
        if s is not None:
            f = f * map_at(s, image, first, row, col, L, C, GROUPS, inside, mask, CL)
        if a is not None:
            f = f * scale
        if b is not None:
            f = f + shift
        u = f * steep + lift[None, :]
        along = 0.0
        if dq is not None:
            along = tl.load(dq + (image * L + first) + row, mask=inside, other=0.0)[:, None]
        du, whole = pulled(du, along, u, lv, dq is not None, ACT)
        if leaks is not None:
            sum_leak += tl.where(u <= 0.0, whole * u, 0.0)
        sum_u += du
        sum_uf += du * f
    add_to_row(sums, tl.sum(sum_u, 0), 2, col, C, SLOTS)
    add_to_row(sums, tl.sum(sum_uf * later, 0), 3, col, C, SLOTS)
    if leaks is not None:
        add_to_row(sums, tl.sum(sum_leak, 0), 4, col, C, SLOTS)
    if FINISH:
        if _is_last(sums + 8 * SLOTS * C + 4):
            _finish_gradients(sums, table, rest, dgamma, dbeta, C, count, SLOTS, 128)


@triton.jit
def row_kernel(sums, out, C, START, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    """A row of sums, which begins at START, added up over its copies."""
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.arange(0, SLOTS)
    copies = tl.load(sums + START + slot[:, None] * C + col[None, :], mask=(col < C)[None, :], other=0.0)
    tl.store(out + col, tl.sum(copies, 0).to(tl.float32).to(out.dtype.element_ty), mask=col < C)
