"""What follows a convolution, as few passes over its output y as there can be.

    F = a·s·g(r·y) + b        r, s: maps; a, b: per channel, optional
    u = A·F + B               BatchNorm: A = γ/√(var+ε), B = β − mean·A, or the identity
    z = act(u),   q = Σ_c z²

A tensor is read as (image, position, channel); where channels come last all images are one. A program
walks over tiles of BL positions and all channels, BC at a time. Where BC covers all channels (SINGLE),
what belongs to a channel is loaded once. Sums over positions are added up in float32 by a program and
across programs in float64, in the rows of ``sums``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .device_math import activate, activation_slope, angular, angular_k_slope, curvature

__all__ = ["apply_kernel", "finish_kernel", "grad_kernel", "reduce_kernel", "stats_kernel"]

# rows of sums, SLOTS times each: ΣF, ΣF², Σdu, Σdu·F, the gradients of the slope, a, b and k; then the count of
# positions (of several processes), Σn, the gradient of the radius, how many programs of stats and reduce have ended
NO_NORM = tl.constexpr(0)
TRAIN = tl.constexpr(1)
EVAL = tl.constexpr(2)
LEAKY = tl.constexpr(2)
NONE = tl.constexpr(0)


@triton.jit
def _place(image, first, row, col, L, C, CL: tl.constexpr):
    if CL:
        return (image * L + first) * C + row[:, None] * C + col[None, :]
    else:
        return image * C * L + first + col[None, :] * L + row[:, None]


@triton.jit
def _map(m, image, first, row, col, L, C, GROUPS: tl.constexpr, mask, CL: tl.constexpr):
    """A map of GROUPS groups at a tile: (BL, 1), or (BL, BC)."""
    if GROUPS == 1:
        return tl.load(m + image * L + first + row, mask=first + row < L, other=0.0)[:, None]
    else:
        group = col // (C // GROUPS)
        if CL:
            place = (image * L + first + row)[:, None] * GROUPS + group[None, :]
        else:
            place = (image * GROUPS + group)[None, :] * L + (first + row)[:, None]
        return tl.load(m + place, mask=mask, other=0.0)


@triton.jit
def _store_map(m, value, image, first, row, col, L, C, GROUPS, mask, CL: tl.constexpr):
    """The same for a map of one group for each channel."""
    if CL:
        place = (image * L + first + row)[:, None] * C + col[None, :]
    else:
        place = (image * C + col)[None, :] * L + (first + row)[:, None]
    tl.store(m + place, value, mask=mask)


@triton.jit
def _channel(k, a, b, col, C, half, top):
    """k's two numbers, a and b of the channels: per channel where given, else numbers."""
    ok = col < C
    if k is not None:
        half, top = curvature(tl.load(k + col, mask=ok, other=1.0).to(tl.float32)[None, :])
    scale = 1.0
    shift = 0.0
    if a is not None:
        scale = tl.load(a + col, mask=ok, other=0.0).to(tl.float32)[None, :]
    if b is not None:
        shift = tl.load(b + col, mask=ok, other=0.0).to(tl.float32)[None, :]
    return half, top, scale, shift


@triton.jit
def _norm(gamma, beta, mean, var, table, col, C, eps, BN: tl.constexpr):
    """A and B of the channels."""
    ok = col < C
    if BN == TRAIN:
        return tl.load(table + 2 * C + col, mask=ok, other=0.0), tl.load(table + 3 * C + col, mask=ok, other=0.0)
    else:
        m = tl.load(mean + col, mask=ok, other=0.0).to(tl.float32)
        v = tl.load(var + col, mask=ok, other=1.0).to(tl.float32)
        scale = 1.0 / tl.sqrt_rn(v + eps)
        shift = -m * scale
        if gamma is not None:
            scale = scale * tl.load(gamma + col, mask=ok, other=0.0).to(tl.float32)
            shift = tl.load(beta + col, mask=ok, other=0.0).to(tl.float32) - m * scale
        return scale, shift


@triton.jit
def _add(sums, values, ROW: tl.constexpr, col, C, SLOTS: tl.constexpr):
    """Add to a row of sums; programs take turns in SLOTS copies of it, since additions to one place queue up."""
    slot = tl.program_id(0) % SLOTS
    tl.atomic_add(sums + (ROW * SLOTS + slot) * C + col, values.to(tl.float64), mask=col < C, sem="relaxed")


@triton.jit
def _row(sums, ROW: tl.constexpr, col, C, SLOTS: tl.constexpr):
    """A row of sums, its copies added up."""
    slot = tl.arange(0, SLOTS)
    place = sums + (ROW * SLOTS + slot)[:, None] * C + col[None, :]
    return tl.sum(tl.load(place, mask=(col < C)[None, :], other=0.0, cache_modifier=".cg"), 0)


@triton.jit
def _is_last(counter):
    """Whether this program is the last to come here, with what all others added in view."""
    tl.debug_barrier()
    before = tl.atomic_add(counter, 1.0, sem="acq_rel")
    return before == (tl.num_programs(0) * tl.num_programs(1) - 1).to(tl.float64)


@triton.jit
def _finish_statistics(
    sums, table, gamma, beta, mean, var, tracked, C, count, eps, momentum,
    UPDATE: tl.constexpr, SLOTS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """From ΣF and ΣF² to the rows mean, 1/√(var+ε), A, B of the table; the running statistics move."""
    for c0 in range(0, C, BLOCK):
        col = c0 + tl.arange(0, BLOCK)
        ok = col < C
        m = _row(sums, 0, col, C, SLOTS) / count
        v = _row(sums, 1, col, C, SLOTS) / count - m * m
        v = tl.where(v < 0.0, 0.0, v)
        mean32 = m.to(tl.float32)
        over = 1.0 / tl.sqrt_rn(v.to(tl.float32) + eps)
        scale = over
        shift = -mean32 * over
        if gamma is not None:
            scale = over * tl.load(gamma + col, mask=ok, other=0.0).to(tl.float32)
            shift = tl.load(beta + col, mask=ok, other=0.0).to(tl.float32) - mean32 * scale
        tl.store(table + col, mean32, mask=ok)
        tl.store(table + C + col, over, mask=ok)
        tl.store(table + 2 * C + col, scale, mask=ok)
        tl.store(table + 3 * C + col, shift, mask=ok)
        if UPDATE:
            unbiased = (v * (count / tl.where(count > 1.0, count - 1.0, 1.0))).to(tl.float32)
            old = tl.load(mean + col, mask=ok, other=0.0).to(tl.float32)
            tl.store(mean + col, (old + (mean32 - old) * momentum).to(mean.dtype.element_ty), mask=ok)
            old = tl.load(var + col, mask=ok, other=0.0).to(tl.float32)
            tl.store(var + col, (old + (unbiased - old) * momentum).to(var.dtype.element_ty), mask=ok)
    if UPDATE:
        if tracked is not None:
            tl.store(tracked, tl.load(tracked) + 1)


@triton.jit
def _finish_gradients(sums, table, rest, dgamma, dbeta, C, count, SLOTS: tl.constexpr, BLOCK: tl.constexpr):
    """From Σdu and Σdu·F to what BatchNorm's statistics add to dF, level + tilt·F, and to dγ and dβ."""
    for c0 in range(0, C, BLOCK):
        col = c0 + tl.arange(0, BLOCK)
        ok = col < C
        m = tl.load(table + col, mask=ok, other=0.0)
        over = tl.load(table + C + col, mask=ok, other=0.0)
        scale = tl.load(table + 2 * C + col, mask=ok, other=0.0)
        total = _row(sums, 2, col, C, SLOTS)
        along = _row(sums, 3, col, C, SLOTS) - m.to(tl.float64) * total
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
    """The end of :func:`stats_kernel` or :func:`reduce_kernel` by itself, after sums of several processes met."""
    count = tl.load(sums + 8 * SLOTS * C)
    if BACKWARD:
        _finish_gradients(sums, table, rest, dgamma, dbeta, C, count, SLOTS, BLOCK)
    else:
        _finish_statistics(sums, table, gamma, beta, mean, var, tracked, C, count, eps, momentum, UPDATE, SLOTS, BLOCK)


@triton.jit
def _leak(leaks, leak, col, C):
    """The slope of the negative half: per channel where given, else a number."""
    if leaks is not None:
        return tl.load(leaks + col, mask=col < C, other=0.0).to(tl.float32)[None, :]
    else:
        return leak


@triton.jit
def stats_kernel(
    y, r, s, k, a, b, sums, table, gamma, beta, mean, var, tracked,
    TILES, L, C, half, top, count, eps, momentum,
    G: tl.constexpr, UPDATE: tl.constexpr, FINISH: tl.constexpr, SLOTS: tl.constexpr, CL: tl.constexpr,
    FAST: tl.constexpr, GROUPS: tl.constexpr, BL: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """ΣF and ΣF² of every channel; the last program makes BatchNorm's table of them."""
    col = tl.program_id(1) * BC + tl.arange(0, BC)
    row = tl.arange(0, BL)
    hv, tv, scale, shift = _channel(k, a, b, col, C, half, top)
    first_sum = tl.zeros([BL, BC], tl.float32)
    second_sum = tl.zeros([BL, BC], tl.float32)
    per_image = tl.cdiv(L, BL)
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        image = (tile // per_image).to(tl.int64)
        first = ((tile % per_image) * BL).to(tl.int64)
        inside = first + row < L
        mask = inside[:, None] & (col < C)[None, :]
        v = tl.load(y + _place(image, first, row, col, L, C, CL), mask=mask, other=0.0).to(tl.float32)
        if r is not None:
            v = v * _map(r, image, first, row, col, L, C, GROUPS, mask, CL)
        f, _slope = angular(v, hv, tv, G, FAST)
        if s is not None:
            f = f * _map(s, image, first, row, col, L, C, GROUPS, mask, CL)
        if a is not None:
            f = f * scale
        if b is not None:
            f = tl.where(mask, f + shift, 0.0)
        first_sum += f
        second_sum += f * f
    _add(sums, tl.sum(first_sum, 0), 0, col, C, SLOTS)
    _add(sums, tl.sum(second_sum, 0), 1, col, C, SLOTS)
    if FINISH:
        if _is_last(sums + 8 * SLOTS * C + 3):
            _finish_statistics(
                sums, table, gamma, beta, mean, var, tracked, C, count, eps, momentum, UPDATE, SLOTS, 128
            )


@triton.jit
def apply_kernel(
    y, r, s, k, a, b, gamma, beta, mean, var, table, leaks, z, q,
    TILES, L, C, half, top, eps, leak,
    G: tl.constexpr, BN: tl.constexpr, ACT: tl.constexpr, CL: tl.constexpr,
    FAST: tl.constexpr, SINGLE: tl.constexpr, GROUPS: tl.constexpr, BL: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """z and q."""
    row = tl.arange(0, BL)
    per_image = tl.cdiv(L, BL)
    col = tl.arange(0, BC)
    if SINGLE:
        hv, tv, scale, shift = _channel(k, a, b, col, C, half, top)
        if BN != NO_NORM:
            big, lift = _norm(gamma, beta, mean, var, table, col, C, eps, BN)
        lv = _leak(leaks, leak, col, C)
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        image = (tile // per_image).to(tl.int64)
        first = ((tile % per_image) * BL).to(tl.int64)
        inside = first + row < L
        squares = tl.zeros([BL], tl.float32)
        for c0 in range(0, C, BC):
            if not SINGLE:
                col = c0 + tl.arange(0, BC)
                hv, tv, scale, shift = _channel(k, a, b, col, C, half, top)
                if BN != NO_NORM:
                    big, lift = _norm(gamma, beta, mean, var, table, col, C, eps, BN)
                lv = _leak(leaks, leak, col, C)
            mask = inside[:, None] & (col < C)[None, :]
            place = _place(image, first, row, col, L, C, CL)
            value = tl.load(y + place, mask=mask, other=0.0).to(tl.float32)
            if r is not None:
                value = value * _map(r, image, first, row, col, L, C, GROUPS, mask, CL)
            f, _slope = angular(value, hv, tv, G, FAST)
            if s is not None:
                f = f * _map(s, image, first, row, col, L, C, GROUPS, mask, CL)
            if a is not None:
                f = f * scale
            if b is not None:
                f = f + shift
            if BN != NO_NORM:
                f = f * big[None, :] + lift[None, :]
            out = activate(f, lv, ACT).to(z.dtype.element_ty)
            tl.store(z + place, out, mask=mask)
            if q is not None:
                wide = out.to(tl.float32)  # 0 in the channels of a tile that are none
                squares += tl.sum(wide * wide, 1)
        if q is not None:
            tl.store(q + image * L + first + row, squares, mask=inside)


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
    hv, tv, scale, shift = _channel(k, a, b, col, C, half, top)
    big, lift = _norm(None, None, None, None, table, col, C, 0.0, TRAIN)
    lv = _leak(leaks, leak, col, C)
    sum_u = tl.zeros([BL, BC], tl.float32)
    sum_uf = tl.zeros([BL, BC], tl.float32)
    if leaks is not None:
        sum_leak = tl.zeros([BL, BC], tl.float32)
    per_image = tl.cdiv(L, BL)
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        image = (tile // per_image).to(tl.int64)
        first = ((tile % per_image) * BL).to(tl.int64)
        inside = first + row < L
        mask = inside[:, None] & (col < C)[None, :]
        place = _place(image, first, row, col, L, C, CL)
        v = tl.load(y + place, mask=mask, other=0.0).to(tl.float32)
        du = tl.load(dz + place, mask=mask, other=0.0).to(tl.float32)
        if r is not None:
            v = v * _map(r, image, first, row, col, L, C, GROUPS, mask, CL)
        f, _slope = angular(v, hv, tv, G, FAST)
        if s is not None:
            f = f * _map(s, image, first, row, col, L, C, GROUPS, mask, CL)
        if a is not None:
            f = f * scale
        if b is not None:
            f = f + shift
        u = f * big[None, :] + lift[None, :]
        if dq is not None:
            along = tl.load(dq + image * L + first + row, mask=inside, other=0.0)[:, None]
            du = du + 2.0 * along * activate(u, lv, ACT)
        if leaks is not None:
            sum_leak += tl.where(u <= 0.0, du * u, 0.0)
        if ACT != NONE:
            du = du * activation_slope(u, lv, ACT)
        sum_u += du
        sum_uf += du * f
    _add(sums, tl.sum(sum_u, 0), 2, col, C, SLOTS)
    _add(sums, tl.sum(sum_uf, 0), 3, col, C, SLOTS)
    if leaks is not None:
        _add(sums, tl.sum(sum_leak, 0), 4, col, C, SLOTS)
    if FINISH:
        if _is_last(sums + 8 * SLOTS * C + 4):
            _finish_gradients(sums, table, rest, dgamma, dbeta, C, count, SLOTS, 128)


@triton.jit
def grad_kernel(
    y, r, s, k, a, b, gamma, beta, mean, var, sums, table, rest, leaks, dz, dq, dy, gr, gs,
    TILES, L, C, half, top, eps, leak,
    G: tl.constexpr, BN: tl.constexpr, ACT: tl.constexpr, SUMS: tl.constexpr, SLOTS: tl.constexpr,
    CL: tl.constexpr, FAST: tl.constexpr, SINGLE: tl.constexpr, GROUPS: tl.constexpr, BL: tl.constexpr,
    BC: tl.constexpr,
):  # fmt: skip
    """dy, and the gradients of the maps; those of what belongs to channels are added to ``sums`` (SUMS)."""
    row = tl.arange(0, BL)
    per_image = tl.cdiv(L, BL)
    col = tl.arange(0, BC)
    if SINGLE:
        hv, tv, scale, shift = _channel(k, a, b, col, C, half, top)
        if BN != NO_NORM:
            big, lift = _norm(gamma, beta, mean, var, table, col, C, eps, BN)
        if BN == TRAIN:
            level, tilt = _centre(rest, col, C)
        lv = _leak(leaks, leak, col, C)
    if SUMS and SINGLE:
        sum_u = tl.zeros([BC], tl.float32)
        sum_uf = tl.zeros([BC], tl.float32)
        sum_leak = tl.zeros([BC], tl.float32)
        sum_a = tl.zeros([BC], tl.float32)
        sum_b = tl.zeros([BC], tl.float32)
        sum_k = tl.zeros([BC], tl.float32)
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        image = (tile // per_image).to(tl.int64)
        first = ((tile % per_image) * BL).to(tl.int64)
        inside = first + row < L
        along_r = tl.zeros([BL], tl.float32)
        along_s = tl.zeros([BL], tl.float32)
        for c0 in range(0, C, BC):
            if not SINGLE:
                col = c0 + tl.arange(0, BC)
                hv, tv, scale, shift = _channel(k, a, b, col, C, half, top)
                if BN != NO_NORM:
                    big, lift = _norm(gamma, beta, mean, var, table, col, C, eps, BN)
                if BN == TRAIN:
                    level, tilt = _centre(rest, col, C)
                lv = _leak(leaks, leak, col, C)
            mask = inside[:, None] & (col < C)[None, :]
            place = _place(image, first, row, col, L, C, CL)
            value = tl.load(y + place, mask=mask, other=0.0).to(tl.float32)
            du = tl.load(dz + place, mask=mask, other=0.0).to(tl.float32)
            c = value
            if r is not None:
                rv = _map(r, image, first, row, col, L, C, GROUPS, mask, CL)
                c = value * rv
            g, slope = angular(c, hv, tv, G, FAST)
            sg = g
            if s is not None:
                sv = _map(s, image, first, row, col, L, C, GROUPS, mask, CL)
                sg = g * sv
            f = sg
            if a is not None:
                f = f * scale
            if b is not None:
                f = f + shift
            u = f
            if BN != NO_NORM:
                u = f * big[None, :] + lift[None, :]
            if dq is not None:
                du = du + 2.0 * tl.load(dq + image * L + first + row, mask=inside, other=0.0)[:, None] * activate(
                    u, lv, ACT
                )
            if SUMS:
                if (BN != TRAIN) and (leaks is not None):
                    part_leak = tl.sum(tl.where(mask & (u <= 0.0), du * u, 0.0), 0)
            if ACT != NONE:
                du = du * activation_slope(u, lv, ACT)
            df = du
            if BN == EVAL:
                df = du * big[None, :]
            if BN == TRAIN:
                df = du * big[None, :] + (level[None, :] + tilt[None, :] * f)
            dsg = df
            if a is not None:
                dsg = df * scale
            if SUMS:
                if BN == EVAL:
                    part_u = tl.sum(tl.where(mask, du, 0.0), 0)
                    part_uf = tl.sum(tl.where(mask, du * f, 0.0), 0)
                if a is not None:
                    part_a = tl.sum(tl.where(mask, df * sg, 0.0), 0)
                if b is not None:
                    part_b = tl.sum(tl.where(mask, df, 0.0), 0)
                if k is not None:
                    kv = tl.load(k + col, mask=col < C, other=1.0).to(tl.float32)[None, :]
                    bend = dsg * angular_k_slope(g, c, kv, hv, tv)
                    if s is not None:
                        bend = bend * sv
                    part_k = tl.sum(tl.where(mask, bend, 0.0), 0)
                if SINGLE:
                    if BN == EVAL:
                        sum_u += part_u
                        sum_uf += part_uf
                    if (BN != TRAIN) and (leaks is not None):
                        sum_leak += part_leak
                    if a is not None:
                        sum_a += part_a
                    if b is not None:
                        sum_b += part_b
                    if k is not None:
                        sum_k += part_k
                else:
                    if BN == EVAL:
                        _add(sums, part_u, 2, col, C, SLOTS)
                        _add(sums, part_uf, 3, col, C, SLOTS)
                    if (BN != TRAIN) and (leaks is not None):
                        _add(sums, part_leak, 4, col, C, SLOTS)
                    if a is not None:
                        _add(sums, part_a, 5, col, C, SLOTS)
                    if b is not None:
                        _add(sums, part_b, 6, col, C, SLOTS)
                    if k is not None:
                        _add(sums, part_k, 7, col, C, SLOTS)
            gc = dsg * slope
            if s is not None:
                gc = gc * sv
            out = gc
            if r is not None:
                out = gc * rv
            tl.store(dy + place, out.to(dy.dtype.element_ty), mask=mask)
            if GROUPS == 1:
                if gr is not None:
                    along_r += tl.sum(gc * value, 1)
                if gs is not None:
                    along_s += tl.sum(dsg * g, 1)
            else:
                if gr is not None:
                    _store_map(gr, gc * value, image, first, row, col, L, C, GROUPS, mask, CL)
                if gs is not None:
                    _store_map(gs, dsg * g, image, first, row, col, L, C, GROUPS, mask, CL)
        if GROUPS == 1:
            if gr is not None:
                tl.store(gr + image * L + first + row, along_r, mask=inside)
            if gs is not None:
                tl.store(gs + image * L + first + row, along_s, mask=inside)
    if SUMS and SINGLE:
        if BN == EVAL:
            _add(sums, sum_u, 2, col, C, SLOTS)
            _add(sums, sum_uf, 3, col, C, SLOTS)
        if (BN != TRAIN) and (leaks is not None):
            _add(sums, sum_leak, 4, col, C, SLOTS)
        if a is not None:
            _add(sums, sum_a, 5, col, C, SLOTS)
        if b is not None:
            _add(sums, sum_b, 6, col, C, SLOTS)
        if k is not None:
            _add(sums, sum_k, 7, col, C, SLOTS)


@triton.jit
def _centre(rest, col, C):
    """What BatchNorm's statistics add to dF: level + tilt·F."""
    ok = col < C
    return tl.load(rest + col, mask=ok, other=0.0), tl.load(rest + C + col, mask=ok, other=0.0)
