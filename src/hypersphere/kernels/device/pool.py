"""Max pooling of (image, position, channel): one byte for each maximum instead of an eight-byte index.

forward:   z = max over the window, its place in the window, and q = Σ_c z²
backward:  dx = Σ over the windows that chose x of dz + 2·z·dq
"""

from __future__ import annotations

import triton
import triton.language as tl

from .norms import place_in


@triton.jit
def pool_kernel(
    x, z, chosen, q,
    TOTAL, C, H, W, OH, OW, S0, S1, P0, P1,
    K0: tl.constexpr, K1: tl.constexpr, CL: tl.constexpr, WIDE: tl.constexpr, BL: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """A program computes BL outputs of all images and all channels; NaN counts as the largest, as in torch."""
    row = place_in(tl.program_id(0), BL, WIDE)
    inside = row < TOTAL
    ow = (row % OW).to(tl.int32)
    oh = ((row // OW) % OH).to(tl.int32)
    image = row // (OW * OH)
    squares = tl.zeros([BL], tl.float32)
    for c0 in range(0, C, BC):
        col = c0 + tl.arange(0, BC)
        ok = col < C
        mask = inside[:, None] & ok[None, :]
        best = tl.full([BL, BC], float("-inf"), tl.float32)
        place = tl.zeros([BL, BC], tl.int32)
        for k0 in range(K0):
            h = oh * S0 - P0 + k0
            for k1 in range(K1):
                w = ow * S1 - P1 + k1
                there = (h >= 0) & (h < H) & (w >= 0) & (w < W)
                if CL:
                    at = (((image * H + h) * W + w) * C)[:, None] + col[None, :]
                else:
                    at = ((image * C * H + h) * W + w)[:, None] + (col * H * W)[None, :]
                v = tl.load(x + at, mask=mask & there[:, None], other=float("-inf")).to(tl.float32)
                better = (v > best) | (v != v)
                best = tl.where(better, v, best)
                place = tl.where(better, k0 * K1 + k1, place)
        if CL:
            out = (row * C)[:, None] + col[None, :]
        else:
            out = ((image * C * OH + oh) * OW + ow)[:, None] + (col * OH * OW)[None, :]
        tl.store(z + out, best.to(z.dtype.element_ty), mask=mask)
        if chosen is not None:
            tl.store(chosen + out, place.to(tl.uint8), mask=mask)
        if q is not None:
            squares += tl.sum(tl.where(mask, best * best, 0.0), 1)
    if q is not None:
        tl.store(q + row, squares, mask=inside)


@triton.jit
def pool_backward_kernel(
    dz, dq, z, chosen, dx,
    TOTAL, C, H, W, OH, OW, S0, S1, P0, P1,
    K0: tl.constexpr, K1: tl.constexpr, R0: tl.constexpr, R1: tl.constexpr, CL: tl.constexpr, WIDE: tl.constexpr,
    BL: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """A program computes the gradients of BL inputs; each reads the R0×R1 windows that may contain it."""
    row = place_in(tl.program_id(0), BL, WIDE)
    inside = row < TOTAL
    w = (row % W).to(tl.int32)
    h = ((row // W) % H).to(tl.int32)
    image = row // (W * H)
    for c0 in range(0, C, BC):
        col = c0 + tl.arange(0, BC)
        mask = inside[:, None] & (col < C)[None, :]
        total = tl.zeros([BL, BC], tl.float32)
        for r0 in range(R0):
            oh = (h + P0) // S0 - r0
            k0 = h + P0 - oh * S0
            for r1 in range(R1):
                ow = (w + P1) // S1 - r1
                k1 = w + P1 - ow * S1
                there = (oh >= 0) & (oh < OH) & (k0 < K0) & (ow >= 0) & (ow < OW) & (k1 < K1)
                spot = (image * OH + oh) * OW + ow
                if CL:
                    at = (spot * C)[:, None] + col[None, :]
                else:
                    at = ((image * C * OH + oh) * OW + ow)[:, None] + (col * OH * OW)[None, :]
                seen = mask & there[:, None]
                mine = tl.load(chosen + at, mask=seen, other=255).to(tl.int32) == (k0 * K1 + k1)[:, None]
                g = tl.load(dz + at, mask=seen, other=0.0).to(tl.float32)
                if dq is not None:
                    along = tl.load(dq + spot, mask=inside & there, other=0.0)
                    g += 2.0 * along[:, None] * tl.load(z + at, mask=seen, other=0.0).to(tl.float32)
                total += tl.where(mine, g, 0.0)
        if CL:
            out = (row * C)[:, None] + col[None, :]
        else:
            out = ((image * C * H + h) * W + w)[:, None] + (col * H * W)[None, :]
        tl.store(dx + out, total.to(dx.dtype.element_ty), mask=mask)


@triton.jit
def pool_spread_kernel(
    dz, dq, z, chosen, dx,
    TOTAL, C, H, W, OH, OW,
    K0: tl.constexpr, K1: tl.constexpr, CL: tl.constexpr, WIDE: tl.constexpr, BL: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """The same for windows that do not overlap and cover all inputs: a program takes BL windows."""
    row = place_in(tl.program_id(0), BL, WIDE)
    inside = row < TOTAL
    ow = (row % OW).to(tl.int32)
    oh = ((row // OW) % OH).to(tl.int32)
    image = row // (OW * OH)
    if dq is not None:
        along = 2.0 * tl.load(dq + row, mask=inside, other=0.0)[:, None]
    for c0 in range(0, C, BC):
        col = c0 + tl.arange(0, BC)
        mask = inside[:, None] & (col < C)[None, :]
        if CL:
            at = (row * C)[:, None] + col[None, :]
        else:
            at = ((image * C * OH + oh) * OW + ow)[:, None] + (col * OH * OW)[None, :]
        place = tl.load(chosen + at, mask=mask, other=255)
        g = tl.load(dz + at, mask=mask, other=0.0).to(tl.float32)
        if dq is not None:
            g += along * tl.load(z + at, mask=mask, other=0.0).to(tl.float32)
        g = g.to(dx.dtype.element_ty)
        for k0 in range(K0):
            for k1 in range(K1):
                h = oh * K0 + k0
                w = ow * K1 + k1
                if CL:
                    out = (((image * H + h) * W + w) * C)[:, None] + col[None, :]
                else:
                    out = ((image * C * H + h) * W + w)[:, None] + (col * H * W)[None, :]
                tl.store(dx + out, tl.where(place == k0 * K1 + k1, g, 0.0), mask=mask)
