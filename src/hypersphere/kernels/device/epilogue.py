"""What follows a convolution, in as few passes over its output y as possible.

    F = a·s·g(r·y) + b        r, s: maps; a, b: per channel, optional
    u = A·F + B               BatchNorm: A = γ/√(var+ε), B = β − mean·A, or the identity
    z = act(u),   q = Σ_c z²

A tensor is read as (image, position, channel); with channels last all images count as one. A program
walks over tiles of BL positions and all channels, BC at a time. Where BC covers all channels (SINGLE),
the parameters of a channel are loaded once. Sums over positions are added up in float32 by a program and
across programs in float64, in the rows of ``sums``.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .math import activate, angular, angular_value, bare, bent, curvature, gains, k_part, k_total, pulled
from .tiles import add_to_row, channel_numbers, folded, leak_of, map_at, norm_numbers, place_of, store_map, tile_at

NO_NORM = tl.constexpr(0)
TRAIN = tl.constexpr(1)
EVAL = tl.constexpr(2)
SIGMOID = tl.constexpr(2)


@triton.jit
def _forward_numbers(
    s, k, a, b, gamma, beta, mean, var, table, col, C, half, top, eps, G: tl.constexpr, BN: tl.constexpr
):  # fmt: skip
    """The channels' parameters for the forward pass; with no affine step between, A includes the sigmoid's factor."""
    hv, tv, scale, shift = channel_numbers(k, a, b, col, C, half, top)
    if BN == NO_NORM:
        now = 1.0
        if G == SIGMOID:
            now = tv
        return hv, now, scale, shift, 1.0, 0.0
    else:
        now, later = folded(tv, s, a, b, G)
        big, lift = norm_numbers(gamma, beta, mean, var, table, col, C, eps, BN)
        return hv, now, scale, shift, big[None, :] * later, lift[None, :]


@triton.jit
def apply_kernel(
    y, r, s, k, a, b, gamma, beta, mean, var, table, leaks, z, q,
    TILES, L, C, half, top, eps, leak,
    G: tl.constexpr, BN: tl.constexpr, ACT: tl.constexpr, CL: tl.constexpr,
    FAST: tl.constexpr, SINGLE: tl.constexpr, GROUPS: tl.constexpr, BL: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """z and q."""
    row = tl.arange(0, BL)
    col = tl.arange(0, BC)
    if SINGLE:
        hv, now, scale, shift, big, lift = _forward_numbers(
            s, k, a, b, gamma, beta, mean, var, table, col, C, half, top, eps, G, BN
        )
        lv = leak_of(leaks, leak, col, C)
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        image, first, left = tile_at(tile, L, BL, CL)
        inside = row < left
        squares = tl.zeros([BL], tl.float32)
        for c0 in range(0, BC if SINGLE else C, BC):
            if not SINGLE:
                col = c0 + tl.arange(0, BC)
                hv, now, scale, shift, big, lift = _forward_numbers(
                    s, k, a, b, gamma, beta, mean, var, table, col, C, half, top, eps, G, BN
                )
                lv = leak_of(leaks, leak, col, C)
            mask = inside[:, None] & (col < C)[None, :]
            start, place = place_of(image, first, row, col, L, C, CL)
            value = tl.load(y + start + place, mask=mask, other=0.0).to(tl.float32)
            if r is not None:
                value = value * map_at(r, image, first, row, col, L, C, GROUPS, inside, mask, CL)
            f = angular_value(value, hv, G, FAST, k is not None) * now
            if s is not None:
                f = f * map_at(s, image, first, row, col, L, C, GROUPS, inside, mask, CL)
            if a is not None:
                f = f * scale
            if b is not None:
                f = f + shift
            if BN != NO_NORM:
                f = f * big + lift
            out = activate(f, lv, ACT)
            tl.store(z + start + place, out.to(z.dtype.element_ty), mask=mask)
            if q is not None:  # before z is rounded; 0 beyond the last channel of a tile
                squares += tl.sum(out * out, 1)
        if q is not None:
            tl.store(q + (image * L + first) + row, squares, mask=inside)


@triton.jit
def grad_kernel(
    y, r, s, k, a, b, gamma, beta, mean, var, sums, table, rest, leaks, dz, dq, dy, gr, gs,
    TILES, L, C, half, top, eps, leak, rate,
    G: tl.constexpr, BN: tl.constexpr, ACT: tl.constexpr, SUMS: tl.constexpr, SLOTS: tl.constexpr,
    CL: tl.constexpr, FAST: tl.constexpr, CUBED: tl.constexpr, SINGLE: tl.constexpr, GROUPS: tl.constexpr,
    BL: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """dy and the gradients of the maps; with SUMS the gradients of the channels' parameters are added to ``sums``.

    SUMS = 2: BatchNorm's statistics cover exactly these positions, so Σ dF·F is known beforehand. CUBED: the
    gradient of r comes times r³, as the gradient of r = 1/n in n² has it; that of one group also times ``rate``.
    """
    FOLD: tl.constexpr = (BN == TRAIN) and (s is None) and (a is None) and (b is None)
    KNOWN: tl.constexpr = FOLD and (SUMS == 2)
    row = tl.arange(0, BL)
    col = tl.arange(0, BC)
    if SINGLE:
        hv, tv, scale, shift = channel_numbers(k, a, b, col, C, half, top)
        if BN != NO_NORM:
            big, lift = norm_numbers(gamma, beta, mean, var, table, col, C, eps, BN)
        if BN == TRAIN:
            level, tilt = _centre(rest, col, C)
            tall, pull, level, tilt = _folded(big, level, tilt, hv, tv, G, FOLD)
        lv = leak_of(leaks, leak, col, C)
    if SUMS and SINGLE:
        sum_u = tl.zeros([BL, BC], tl.float32)
        sum_uf = tl.zeros([BL, BC], tl.float32)
        sum_leak = tl.zeros([BL, BC], tl.float32)
        sum_a = tl.zeros([BL, BC], tl.float32)
        sum_b = tl.zeros([BL, BC], tl.float32)
        sum_k = tl.zeros([BL, BC], tl.float32)
        sum_other = tl.zeros([BL, BC], tl.float32)
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        image, first, left = tile_at(tile, L, BL, CL)
        inside = row < left
        along_r = tl.zeros([BL], tl.float32)
        along_s = tl.zeros([BL], tl.float32)
        for c0 in range(0, BC if SINGLE else C, BC):
            if not SINGLE:
                col = c0 + tl.arange(0, BC)
                hv, tv, scale, shift = channel_numbers(k, a, b, col, C, half, top)
                if BN != NO_NORM:
                    big, lift = norm_numbers(gamma, beta, mean, var, table, col, C, eps, BN)
                if BN == TRAIN:
                    level, tilt = _centre(rest, col, C)
                    tall, pull, level, tilt = _folded(big, level, tilt, hv, tv, G, FOLD)
                lv = leak_of(leaks, leak, col, C)
            mask = inside[:, None] & (col < C)[None, :]
            start, place = place_of(image, first, row, col, L, C, CL)
            value = tl.load(y + start + place, mask=mask, other=0.0).to(tl.float32)
            du = tl.load(dz + start + place, mask=mask, other=0.0).to(tl.float32)
            c = value
            if r is not None:
                rv = map_at(r, image, first, row, col, L, C, GROUPS, inside, mask, CL)
                c = value * rv
            if (SUMS != 0) and (k is not None):
                deviation, slope, t, curve = bent(c, hv, FAST)
                g = t
                slope = curve * slope
                if not FOLD:
                    g = t * tv
                    slope = slope * (hv * tv)
            elif FOLD:
                g, slope = bare(c, hv, G, FAST)
            else:
                g, slope = angular(c, hv, tv, G, FAST)
            sg = g
            if s is not None:
                sv = map_at(s, image, first, row, col, L, C, GROUPS, inside, mask, CL)
                sg = g * sv
            f = sg
            if a is not None:
                f = f * scale
            if b is not None:
                f = f + shift
            u = f
            if BN == TRAIN:
                u = f * tall + lift[None, :]
            elif BN == EVAL:
                u = f * big[None, :] + lift[None, :]
            along = 0.0
            if dq is not None:
                along = tl.load(dq + (image * L + first) + row, mask=inside, other=0.0)[:, None]
            du, whole = pulled(du, along, u, lv, dq is not None, ACT)
            df = du
            if BN == EVAL:
                df = du * big[None, :]
            if BN == TRAIN:
                df = du * pull + (level + tilt * f)
            dsg = df
            if a is not None:
                dsg = df * scale
            if SUMS:  # outside the tensor y and dz are 0, and so is each of these
                if BN == EVAL:
                    part_u = du
                    part_uf = du * f
                if (BN != TRAIN) and (leaks is not None):
                    part_leak = tl.where(u <= 0.0, whole * u, 0.0)
                if a is not None:
                    part_a = df * sg
                if b is not None:
                    part_b = df
                    if BN == TRAIN:
                        part_b = tl.where(mask, df, 0.0)
                if k is not None:
                    weight = dsg
                    if s is not None:
                        weight = dsg * sv
                    part_k = weight * t
                    part_other = weight * k_part(t, curve, deviation * hv)
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
                        sum_other += part_other
                        if not KNOWN:
                            sum_k += part_k
                else:
                    if BN == EVAL:
                        add_to_row(sums, tl.sum(part_u, 0), 2, col, C, SLOTS)
                        add_to_row(sums, tl.sum(part_uf, 0), 3, col, C, SLOTS)
                    if (BN != TRAIN) and (leaks is not None):
                        add_to_row(sums, tl.sum(part_leak, 0), 4, col, C, SLOTS)
                    if a is not None:
                        add_to_row(sums, tl.sum(part_a, 0), 5, col, C, SLOTS)
                    if b is not None:
                        add_to_row(sums, tl.sum(part_b, 0), 6, col, C, SLOTS)
                    if k is not None:
                        add_to_row(sums, _k_sum(part_k, part_other, k, col, C, FOLD), 7, col, C, SLOTS)
            gc = dsg * slope
            if s is not None:
                gc = gc * sv
            out = gc
            if r is not None:
                out = gc * rv
            tl.store(dy + start + place, out.to(dy.dtype.element_ty), mask=mask)
            if GROUPS == 1:
                if gr is not None:
                    along_r += tl.sum(gc * value, 1)
                if gs is not None:
                    along_s += tl.sum(dsg * g, 1)
            else:
                if gr is not None:
                    own = gc * value
                    if CUBED:
                        own = (out * value) * (rv * rv)
                    store_map(gr, own, image, first, row, col, L, C, GROUPS, mask, CL)
                if gs is not None:
                    store_map(gs, dsg * g, image, first, row, col, L, C, GROUPS, mask, CL)
        if GROUPS == 1:
            if gr is not None:
                if CUBED:
                    over = tl.load(r + (image * L + first) + row, mask=inside, other=0.0)
                    along_r = along_r * over * (over * over) * rate
                tl.store(gr + (image * L + first) + row, along_r, mask=inside)
            if gs is not None:
                tl.store(gs + (image * L + first) + row, along_s, mask=inside)
    if SUMS and SINGLE:
        if BN == EVAL:
            add_to_row(sums, tl.sum(sum_u, 0), 2, col, C, SLOTS)
            add_to_row(sums, tl.sum(sum_uf, 0), 3, col, C, SLOTS)
        if (BN != TRAIN) and (leaks is not None):
            add_to_row(sums, tl.sum(sum_leak, 0), 4, col, C, SLOTS)
        if a is not None:
            add_to_row(sums, tl.sum(sum_a, 0), 5, col, C, SLOTS)
        if b is not None:
            add_to_row(sums, tl.sum(sum_b, 0), 6, col, C, SLOTS)
        if k is not None:
            dk = _k_sum(sum_k, sum_other, k, col, C, FOLD)
            if KNOWN and (tl.program_id(0) == 0):
                dk += _k_known(rest, k, col, C, eps, (TILES // tl.cdiv(L, BL)).to(tl.float32) * L)
            add_to_row(sums, dk, 7, col, C, SLOTS)


@triton.jit
def _k_known(rest, k, col, C, eps, count):
    """The share of Σ dF·t in the gradient of k: Σ dF·F = −tilt·count·ε if the statistics are the batch's."""
    kv = tl.load(k + col, mask=col < C, other=1.0).to(tl.float32)
    _half, top = curvature(kv)
    tilt = tl.load(rest + C + col, mask=col < C, other=0.0)
    return k_total(-tilt * (count * eps) / top, tilt * 0.0, kv, top)


@triton.jit
def _k_sum(one, other, k, col, C, FOLD: tl.constexpr):
    """The gradient of k from sums over positions; with FOLD they include the factor of g′."""
    kv = tl.load(k + col, mask=col < C, other=1.0).to(tl.float32)
    half, top = curvature(kv)
    total = k_total(tl.sum(one, 0), tl.sum(other, 0), kv, top)
    if FOLD:
        total = total / (half * top)
    return total


@triton.jit
def _folded(big, level, tilt, half, top, G: tl.constexpr, FOLD: tl.constexpr):
    """A, and the coefficients of du and F in dF; with FOLD they include the factors of g and g′ (:func:`bare`)."""
    if FOLD:
        high, steep = gains(half, top, G)
        return big[None, :] * high, big[None, :] * steep, level[None, :] * steep, tilt[None, :] * (high * steep)
    else:
        return big[None, :], big[None, :], level[None, :], tilt[None, :]


@triton.jit
def _centre(rest, col, C):
    """What BatchNorm's statistics add to dF: level + tilt·F."""
    ok = col < C
    return tl.load(rest + col, mask=ok, other=0.0), tl.load(rest + C + col, mask=ok, other=0.0)
