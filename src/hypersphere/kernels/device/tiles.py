"""What all passes over the output of a convolution share: memory offsets, maps, per-channel parameters, sums."""

from __future__ import annotations

import triton
import triton.language as tl

from .math import curvature

TRAIN = tl.constexpr(1)
SIGMOID = tl.constexpr(2)


@triton.jit
def tile_at(tile, L, BL: tl.constexpr, CL: tl.constexpr):
    """The image of a tile, its first position, and how many positions are left there, at most BL.

    With channels last all images count as one, and no division is needed.
    """
    if CL:
        image = tl.program_id(0).to(tl.int64) * 0
        first = (image + tile) * BL
    else:
        per_image = tl.cdiv(L, BL)
        image = (tile // per_image).to(tl.int64)
        first = ((tile % per_image) * BL).to(tl.int64)
    return image, first, tl.minimum(L - first, BL).to(tl.int32)


@triton.jit
def place_of(image, first, row, col, L, C, CL: tl.constexpr):
    """The offset of a tile, and the offsets of its entries (BL, BC) from there, in 32 bits where they always fit."""
    if CL:
        return (image * L + first) * C, row[:, None] * C + col[None, :]
    else:
        return image * C * L + first, col.to(tl.int64)[None, :] * L + row[:, None]


@triton.jit
def map_at(m, image, first, row, col, L, C, GROUPS: tl.constexpr, inside, mask, CL: tl.constexpr):
    """A map of GROUPS groups at a tile: (BL, 1), or (BL, BC)."""
    if GROUPS == 1:
        return tl.load(m + (image * L + first) + row, mask=inside, other=0.0)[:, None]
    else:
        group = col // (C // GROUPS)
        if CL:
            place = (image * L + first + row)[:, None] * GROUPS + group[None, :]
        else:
            place = (image * GROUPS + group)[None, :] * L + (first + row)[:, None]
        return tl.load(m + place, mask=mask, other=0.0)


@triton.jit
def store_map(m, value, image, first, row, col, L, C, GROUPS, mask, CL: tl.constexpr):
    """The same for a map of one group for each channel."""
    start, place = place_of(image, first, row, col, L, C, CL)
    tl.store(m + start + place, value, mask=mask)


@triton.jit
def channel_numbers(k, a, b, col, C, half, top):
    """The two constants of k, and a and b: per channel where given, else single numbers."""
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
def norm_numbers(gamma, beta, mean, var, table, col, C, eps, BN: tl.constexpr):
    """A and B of the channels."""
    ok = col < C
    if BN == TRAIN:
        return tl.load(table + 2 * C + col, mask=ok, other=0.0), tl.load(table + 3 * C + col, mask=ok, other=0.0)
    else:
        m = tl.load(mean + col, mask=ok, other=0.0).to(tl.float32)
        v = tl.load(var + col, mask=ok, other=1.0).to(tl.float32)
        scale = tl.rsqrt(v + eps)
        shift = -m * scale
        if gamma is not None:
            scale = scale * tl.load(gamma + col, mask=ok, other=0.0).to(tl.float32)
            shift = tl.load(beta + col, mask=ok, other=0.0).to(tl.float32) - m * scale
        return scale, shift


@triton.jit
def leak_of(leaks, leak, col, C):
    """The slope of the negative half: per channel if given, else one number."""
    if leaks is not None:
        return tl.load(leaks + col, mask=col < C, other=0.0).to(tl.float32)[None, :]
    else:
        return leak


@triton.jit
def add_to_row(sums, values, ROW: tl.constexpr, col, C, SLOTS: tl.constexpr):
    """Add to a row of sums; programs use SLOTS copies of it in turn, since atomic additions to one address queue up."""
    slot = tl.program_id(0) % SLOTS
    tl.atomic_add(sums + (ROW * SLOTS + slot) * C + col, values.to(tl.float64), mask=col < C, sem="relaxed")


@triton.jit
def folded(top, s, a, b, G: tl.constexpr):
    """The sigmoid's factor as two: one applied to F at once, and one that can be applied to the sums over F later."""
    if G != SIGMOID:
        return 1.0, 1.0
    elif (s is None) and (a is None) and (b is None):
        return 1.0, top
    else:
        return top, 1.0
