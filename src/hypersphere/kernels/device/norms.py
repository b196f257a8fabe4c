"""Patch norms: Σ_c x² of every position, its box sum over the window, and their gradients.

Maps are float32 with G groups, laid out like the activations: (N, ..., G) with channels last,
(N, G, ...) otherwise.
"""

from __future__ import annotations

import triton
import triton.language as tl

PLAIN = tl.constexpr(0)
SQUARE = tl.constexpr(1)
SPHERE = tl.constexpr(2)
ROOT = tl.constexpr(3)
INPUT = tl.constexpr(4)
CUBED = tl.constexpr(5)

ZERO = tl.constexpr(1e-32)  # n² of what counts as a zero patch: gradients grow like 1/n², and 0·∞ would be NaN


@triton.jit
def squares_kernel(
    x, q,
    L, C, G,
    CL: tl.constexpr, BL: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """q = Σ x² over the C/G channels of each group; a program computes BL positions of one group of one image."""
    tiles = tl.cdiv(L, BL)
    pid = tl.program_id(0)
    group = tl.program_id(1).to(tl.int64)
    image = (pid // tiles).to(tl.int64)
    first = ((pid % tiles) * BL).to(tl.int64)
    width = C // G
    row = tl.arange(0, BL)
    inside = first + row < L
    total = tl.zeros([BL], tl.float32)
    for c0 in range(0, width, BC):
        col = c0 + tl.arange(0, BC)
        mask = inside[:, None] & (col < width)[None, :]
        if CL:
            where = x + (image * L + first) * C + group * width + row[:, None] * C + col[None, :]
        else:
            where = x + image * C * L + group * width * L + first + col.to(tl.int64)[None, :] * L + row[:, None]
        v = tl.load(where, mask=mask, other=0.0).to(tl.float32)
        total += tl.sum(v * v, 1)
    if CL:
        out = q + (image * L + first + row) * G + group
    else:
        out = q + (image * G + group) * L + first + row
    tl.store(out, total, mask=inside)


@triton.jit
def place_in(program, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """The BLOCK indices of a program, in 64 bits only where necessary."""
    if WIDE:
        return program.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    else:
        return program * BLOCK + tl.arange(0, BLOCK)


@triton.jit
def _source(o, i, STRIDE, PADDING, DILATION, TRANSPOSED: tl.constexpr):
    """The input position that window entry i of output position o reads, and whether there is one."""
    if TRANSPOSED:
        t = o + PADDING - i * DILATION
        return t // STRIDE, (t >= 0) & (t % STRIDE == 0)
    else:
        t = o * STRIDE - PADDING + i * DILATION
        return t, t >= 0


@triton.jit
def _place_before(p, O0, O1, O2):
    """The image and the position in it, along three axes, of index p of a map."""
    o2 = (p % O2).to(tl.int32)
    p = p // O2
    o1 = (p % O1).to(tl.int32)
    p = p // O1
    return p // O0, (p % O0).to(tl.int32), o1, o2


@triton.jit
def box_kernel(
    src, also, dst, sums, x,
    TOTAL, G, I0, I1, I2, O0, O1, O2, S0, S1, S2, P0, P1, P2, D0, D1, D2, scale,
    K0: tl.constexpr, K1: tl.constexpr, K2: tl.constexpr,
    TRANSPOSED: tl.constexpr, PRE: tl.constexpr, POST: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Sum over the window at each of TOTAL output positions, or the transpose of that sum.

    PRE is what is summed: ``src``; its square; or, for the gradient of r = 1/n in n², −½·src·also³ (``also`` is
    r·scale), of which CUBED finds src·also³ in ``src``. POST is what n² is turned into: n² itself; scale/n, 0 for a
    zero patch; n, whose sum is added to ``sums``; or its share 2·x·total of the input's gradient, added to ``dst``.
    WIDE: indices do not fit in 32 bits (32-bit division is much faster). COLUMNS: how many of the G channels are
    computed together with channels last; 0 if images and channels are one axis.
    """
    p = place_in(tl.program_id(0), BLOCK, WIDE)
    inside = p < TOTAL
    image, o0, o1, o2 = _place_before(p, O0, O1, O2)
    start = image * (I0 * I1 * I2)
    place = p
    there = inside
    total = tl.zeros([BLOCK], tl.float32)
    if COLUMNS:
        col = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
        start = (start * G)[:, None] + col[None, :]
        place = (p * G)[:, None] + col[None, :]
        there = inside[:, None] & (col < G)[None, :]
        total = tl.zeros([BLOCK, COLUMNS], tl.float32)
    for k0 in range(K0):
        i0, ok0 = _source(o0, k0, S0, P0, D0, TRANSPOSED)
        ok0 = inside & ok0 & (i0 < I0)
        for k1 in range(K1):
            i1, ok1 = _source(o1, k1, S1, P1, D1, TRANSPOSED)
            ok1 = ok0 & ok1 & (i1 < I1)
            for k2 in range(K2):
                i2, ok2 = _source(o2, k2, S2, P2, D2, TRANSPOSED)
                ok = ok1 & ok2 & (i2 < I2)
                at = (i0 * I1 + i1) * I2 + i2
                if WIDE:
                    at = at.to(tl.int64)
                if COLUMNS:
                    at = (at * G)[:, None]
                    ok = ok[:, None] & there
                v = tl.load(src + start + at, mask=ok, other=0.0).to(tl.float32)
                if PRE == SQUARE:
                    v = v * v
                elif PRE == SPHERE:
                    r = tl.load(also + start + at, mask=ok, other=0.0)
                    v = v * r * (r * r)
                total += v
    if (PRE == SPHERE) or (PRE == CUBED):  # noqa: SIM109 - Triton knows no "in"
        total = total * (-0.5 * scale)
    if POST == SPHERE:
        total = tl.where(total < ZERO, 0.0, tl.rsqrt(tl.where(total < ZERO, 1.0, total)) * scale)
    elif POST == ROOT:
        total = tl.sqrt_rn(tl.where(total < ZERO, 0.0, total))
        if sums is not None:
            tl.atomic_add(sums, tl.sum(tl.where(there, total, 0.0)).to(tl.float64), sem="relaxed")
    elif POST == INPUT:
        v = tl.load(x + place, mask=there, other=0.0).to(tl.float32)
        total = tl.load(dst + place, mask=there, other=0.0).to(tl.float32) + 2.0 * v * total
    tl.store(dst + place, total.to(dst.dtype.element_ty), mask=there)


@triton.jit
def add_input_kernel(
    grad, x, dq,
    L, C,
    G: tl.constexpr, CL: tl.constexpr, BL: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """grad ← grad + 2·x·dq in place: the gradient of Σ x² joins that of the convolution."""
    tiles = tl.cdiv(L, BL)
    pid = tl.program_id(0)
    image = (pid // tiles).to(tl.int64)
    first = ((pid % tiles) * BL).to(tl.int64)
    row = tl.arange(0, BL)
    inside = first + row < L
    width = C // G
    if G == 1:
        m = tl.load(dq + image * L + first + row, mask=inside, other=0.0)[:, None] * 2.0
    for c0 in range(0, C, BC):
        col = c0 + tl.arange(0, BC)
        mask = inside[:, None] & (col < C)[None, :]
        if CL:
            at = (image * L + first) * C + row[:, None] * C + col[None, :]
        else:
            at = image * C * L + first + col.to(tl.int64)[None, :] * L + row[:, None]
        if G != 1:
            group = col // width
            if CL:
                place = dq + (image * L + first + row)[:, None] * G + group[None, :]
            else:
                place = dq + (image * G + group)[None, :] * L + (first + row)[:, None]
            m = tl.load(place, mask=mask, other=0.0) * 2.0
        v = tl.load(x + at, mask=mask, other=0.0).to(tl.float32) * m
        v += tl.load(grad + at, mask=mask, other=0.0).to(tl.float32)
        tl.store(grad + at, v.to(grad.dtype.element_ty), mask=mask)
