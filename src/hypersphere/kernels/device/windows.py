"""Patch norms of each channel by itself for large windows, channels last: both axes in one pass.

    n²(o) = Σ_j Σ_i x²(o + (j, i)),     Σ_i as a product with a matrix of ones and zeros, on tensor cores

A program computes four rows of BI − K2 + 1 positions and BC channels: it adds up rows of the input as it loads them,
each for all of the outputs that read it, and then sums along the rows. The products round what they sum to 11 bits,
so this is for maps in half precision. They multiply by zero what is outside a window: squares from 2e37 on and NaN
count as 2e37, and a patch that holds one has 1/n = 0, as if its squares had overflowed.
"""

from __future__ import annotations

import triton
import triton.language as tl

SQUARE = tl.constexpr(1)
SPHERE = tl.constexpr(2)
INPUT = tl.constexpr(4)

_TINY = tl.constexpr(1.1754944e-38)
_LARGE = tl.constexpr(2e37)  # the sum of 16 is a float32 number


@triton.jit
def _bounded(v):
    return tl.minimum(tl.maximum(v, -_LARGE), _LARGE)


@triton.jit
def _store(
    band, rows, dst, x, image, o1, o2, col, O1, O2, C, scale, K2: tl.constexpr, POST: tl.constexpr, BI: tl.constexpr
):  # fmt: skip
    """One row of outputs from the sums over the rows that it reads."""
    if BI < 64:  # tensor cores take 64 rows at a time: those of the channels
        total = tl.trans(tl.dot(tl.trans(rows), tl.trans(band), input_precision="tf32"))
    else:
        total = tl.dot(band, rows, input_precision="tf32")
    o = tl.arange(0, BI)
    there = ((o < BI - K2 + 1) & (o2 + o < O2))[:, None] & (col < C)[None, :] & (o1 < O1)
    start, place = (image * O1 + o1) * O2 * C, ((o2 + o) * C)[:, None] + col[None, :]
    if POST == SPHERE:
        usual = (total >= _TINY) & (total < 0.99 * _LARGE)
        total = tl.where(usual, tl.rsqrt(tl.where(usual, total, 1.0)) * scale, 0.0)
    elif POST == INPUT:
        v = tl.load(x + start + place, mask=there, other=0.0).to(tl.float32)
        total = tl.load(dst + start + place, mask=there, other=0.0).to(tl.float32) + v * (total * scale)
    tl.store(dst + start + place, total.to(dst.dtype.element_ty), mask=there)


@triton.jit
def window_kernel(
    src, also, dst, sums, x,
    C, I1, I2, O1, O2, P1, P2, scale,
    K1: tl.constexpr, K2: tl.constexpr, PRE: tl.constexpr, POST: tl.constexpr, BI: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """The sum over the window, of stride 1, of the squares of ``src`` (PRE = SQUARE) or of ``src`` itself.

    POST: scale/n, 0 for a zero patch; or scale·x·total is added to ``dst``. The arguments ``also`` and ``sums`` are
    None; they are those of :func:`.norms.box_kernel`.
    """
    width: tl.constexpr = BI - K2 + 1
    across = tl.cdiv(O2, width)
    down = tl.cdiv(O1, 4)
    pid = tl.program_id(0)
    o2 = (pid % across) * width
    o1 = (pid // across % down) * 4
    image = (pid // across // down).to(tl.int64)
    col = tl.program_id(1) * BC + tl.arange(0, BC)
    i = tl.arange(0, BI)
    i2 = o2 - P2 + i
    inside = ((i2 >= 0) & (i2 < I2))[:, None] & (col < C)[None, :]
    place = (i2 * C)[:, None] + col[None, :]
    rows0 = tl.zeros([BI, BC], tl.float32)
    rows1 = tl.zeros([BI, BC], tl.float32)
    rows2 = tl.zeros([BI, BC], tl.float32)
    rows3 = tl.zeros([BI, BC], tl.float32)
    for j in tl.static_range(K1 + 3):
        i1 = o1 - P1 + j
        v = tl.load(
            src + (image * I1 + i1) * I2 * C + place, mask=inside & (i1 >= 0) & (i1 < I1), other=0.0
        ).to(tl.float32)  # fmt: skip
        if PRE == SQUARE:
            v = v * v
        v = _bounded(v)
        if j < K1:
            rows0 += v
        if (j >= 1) and (j < K1 + 1):
            rows1 += v
        if (j >= 2) and (j < K1 + 2):
            rows2 += v
        if j >= 3:
            rows3 += v
    band = ((i[None, :] >= i[:, None]) & (i[None, :] < i[:, None] + K2)).to(tl.float32)
    _store(band, rows0, dst, x, image, o1, o2, col, O1, O2, C, scale, K2, POST, BI)
    _store(band, rows1, dst, x, image, o1 + 1, o2, col, O1, O2, C, scale, K2, POST, BI)
    _store(band, rows2, dst, x, image, o1 + 2, o2, col, O1, O2, C, scale, K2, POST, BI)
    _store(band, rows3, dst, x, image, o1 + 3, o2, col, O1, O2, C, scale, K2, POST, BI)
