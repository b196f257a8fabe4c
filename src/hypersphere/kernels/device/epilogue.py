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

from .math import activate, activation_slope, angular, angular_k_slope
from .tiles import add_to_row, channel_numbers, leak_of, map_at, norm_numbers, place_of, store_map

__all__ = ["apply_kernel", "grad_kernel"]

NO_NORM = tl.constexpr(0)
TRAIN = tl.constexpr(1)
EVAL = tl.constexpr(2)
NONE = tl.constexpr(0)


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
        hv, tv, scale, shift = channel_numbers(k, a, b, col, C, half, top)
        if BN != NO_NORM:
            big, lift = norm_numbers(gamma, beta, mean, var, table, col, C, eps, BN)
        lv = leak_of(leaks, leak, col, C)
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):
        image = (tile // per_image).to(tl.int64)
        first = ((tile % per_image) * BL).to(tl.int64)
        inside = first + row < L
        squares = tl.zeros([BL], tl.float32)
        for c0 in range(0, C, BC):
            if not SINGLE:
                col = c0 + tl.arange(0, BC)
                hv, tv, scale, shift = channel_numbers(k, a, b, col, C, half, top)
                if BN != NO_NORM:
                    big, lift = norm_numbers(gamma, beta, mean, var, table, col, C, eps, BN)
                lv = leak_of(leaks, leak, col, C)
            mask = inside[:, None] & (col < C)[None, :]
            place = place_of(image, first, row, col, L, C, CL)
            value = tl.load(y + place, mask=mask, other=0.0).to(tl.float32)
            if r is not None:
                value = value * map_at(r, image, first, row, col, L, C, GROUPS, mask, CL)
            f, _slope = angular(value, hv, tv, G, FAST)
            if s is not None:
                f = f * map_at(s, image, first, row, col, L, C, GROUPS, mask, CL)
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
        hv, tv, scale, shift = channel_numbers(k, a, b, col, C, half, top)
        if BN != NO_NORM:
            big, lift = norm_numbers(gamma, beta, mean, var, table, col, C, eps, BN)
        if BN == TRAIN:
            level, tilt = _centre(rest, col, C)
        lv = leak_of(leaks, leak, col, C)
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
                hv, tv, scale, shift = channel_numbers(k, a, b, col, C, half, top)
                if BN != NO_NORM:
                    big, lift = norm_numbers(gamma, beta, mean, var, table, col, C, eps, BN)
                if BN == TRAIN:
                    level, tilt = _centre(rest, col, C)
                lv = leak_of(leaks, leak, col, C)
            mask = inside[:, None] & (col < C)[None, :]
            place = place_of(image, first, row, col, L, C, CL)
            value = tl.load(y + place, mask=mask, other=0.0).to(tl.float32)
            du = tl.load(dz + place, mask=mask, other=0.0).to(tl.float32)
            c = value
            if r is not None:
                rv = map_at(r, image, first, row, col, L, C, GROUPS, mask, CL)
                c = value * rv
            g, slope = angular(c, hv, tv, G, FAST)
            sg = g
            if s is not None:
                sv = map_at(s, image, first, row, col, L, C, GROUPS, mask, CL)
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
                        add_to_row(sums, part_u, 2, col, C, SLOTS)
                        add_to_row(sums, part_uf, 3, col, C, SLOTS)
                    if (BN != TRAIN) and (leaks is not None):
                        add_to_row(sums, part_leak, 4, col, C, SLOTS)
                    if a is not None:
                        add_to_row(sums, part_a, 5, col, C, SLOTS)
                    if b is not None:
                        add_to_row(sums, part_b, 6, col, C, SLOTS)
                    if k is not None:
                        add_to_row(sums, part_k, 7, col, C, SLOTS)
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
                    store_map(gr, gc * value, image, first, row, col, L, C, GROUPS, mask, CL)
                if gs is not None:
                    store_map(gs, dsg * g, image, first, row, col, L, C, GROUPS, mask, CL)
        if GROUPS == 1:
            if gr is not None:
                tl.store(gr + image * L + first + row, along_r, mask=inside)
            if gs is not None:
                tl.store(gs + image * L + first + row, along_s, mask=inside)
    if SUMS and SINGLE:
        if BN == EVAL:
            add_to_row(sums, sum_u, 2, col, C, SLOTS)
            add_to_row(sums, sum_uf, 3, col, C, SLOTS)
        if (BN != TRAIN) and (leaks is not None):
            add_to_row(sums, sum_leak, 4, col, C, SLOTS)
        if a is not None:
            add_to_row(sums, sum_a, 5, col, C, SLOTS)
        if b is not None:
            add_to_row(sums, sum_b, 6, col, C, SLOTS)
        if k is not None:
            add_to_row(sums, sum_k, 7, col, C, SLOTS)


@triton.jit
def _centre(rest, col, C):
    """What BatchNorm's statistics add to dF: level + tilt·F."""
    ok = col < C
    return tl.load(rest + col, mask=ok, other=0.0), tl.load(rest + C + col, mask=ok, other=0.0)
