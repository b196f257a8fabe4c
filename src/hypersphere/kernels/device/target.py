"""A loss with an additive margin, from the sum over the other classes: ℓ = log(1 + e^t), t = log Σ_{j≠y} e^u − s·ψ(c).

c = x̂·ŵ_y. ψ(c) = c − m (ANGLE off), or cos(θ + m) up to θ = π − m and c − m·sin m from there (ArcFace). A sample whose
label is ``ignored`` loses 0, one whose label is no class NaN; neither has a gradient.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .heads import log1p
from .math import arcsin
from .rows import length

_HALF_PI = tl.constexpr(1.5707963267948966)


@triton.jit
def start_kernel(
    x, labels, direction, lengths, scaled, operand, rows, d, ignored, s, R: tl.constexpr, D: tl.constexpr
):  # fmt: skip
    """x̂, ‖x‖, s·x̂, and the last in the dtype of the products; 0 for ignored samples, whatever x is."""
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    k = tl.arange(0, D)
    there = (r < rows)[:, None] & (k < d)[None, :]
    place = r[:, None] * d + k[None, :]
    counts = tl.load(labels + r, mask=r < rows, other=0) != ignored
    u, n, _ = length(tl.load(x + place, mask=there & counts[:, None], other=0.0))
    tl.store(direction + place, u, mask=there)
    tl.store(lengths + r, n, mask=r < rows)
    tl.store(scaled + place, s * u, mask=there)
    tl.store(operand + place, (s * u).to(operand.dtype.element_ty), mask=there)


@triton.jit
def _own(direction, w, labels, r, k, rows, d, classes, ignored):
    """x̂ and ŵ_y of some rows, their cosine, the label y, 1/‖w_y‖, whether y is a class, and whether it is ignored."""
    there = (r < rows)[:, None] & (k < d)[None, :]
    y = tl.load(labels + r, mask=r < rows, other=0)
    skipped = y == ignored
    counts = (y >= 0) & (y < classes) & (y != ignored)
    y = tl.where(counts, y, 0)
    x = tl.load(direction + r[:, None] * d + k[None, :], mask=there, other=0.0)
    u, _, inverse = length(tl.load(w + y[:, None] * d + k[None, :], mask=there, other=0.0))
    return x, u, tl.sum(x * u, 1), y, inverse, counts, skipped


@triton.jit
def _margin(c, m, cos_m, drop, ANGLE: tl.constexpr):
    """ψ(c) and ψ′(c); ``drop`` is m·sin m."""
    if ANGLE:
        deviation, steep = arcsin(c, False)
        turned = (_HALF_PI - deviation) + m
        near = c >= -cos_m
        return tl.where(near, tl.cos(turned), c - drop), tl.where(near, tl.sin(turned) * steep, 1.0)
    else:
        return c - m, c * 0.0 + 1.0


@triton.jit
def target_kernel(
    direction, w, labels, lse, losses, rows, d, classes, ignored, s, m, cos_m, drop,
    ANGLE: tl.constexpr, R: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """ℓ of each sample."""
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    _, _, c, _, _, counts, skipped = _own(direction, w, labels, r, tl.arange(0, D), rows, d, classes, ignored)
    value, _ = _margin(c, m, cos_m, drop, ANGLE)
    t = tl.load(lse + r, mask=r < rows, other=0.0) - s * value
    loss = tl.maximum(t, 0.0, propagate_nan=tl.PropagateNan.ALL) + log1p(tl.exp(-tl.abs(t)))
    tl.store(losses + r, tl.where(counts, loss, tl.where(skipped, 0.0, float("nan"))), mask=r < rows)


@triton.jit
def mean_kernel(losses, labels, out, share, rows, ignored, MEAN: tl.constexpr, T: tl.constexpr):
    """Σ ℓ, or with MEAN its mean over the samples that are not ignored; and ∂/∂ℓ, the same for all of these."""
    i = tl.arange(0, T)
    total, count = tl.zeros((T,), tl.float32), tl.zeros((T,), tl.float32)
    for start in range(0, rows, T):
        there = start + i < rows
        total += tl.load(losses + start + i, mask=there, other=0.0)
        count += tl.where(there & (tl.load(labels + start + i, mask=there, other=0) != ignored), 1.0, 0.0)
    each = 1.0
    if MEAN:
        each = 1.0 / tl.sum(count, 0)
    tl.store(out, tl.sum(total, 0) * each)
    tl.store(share, each)


@triton.jit
def target_share_kernel(
    direction, w, labels, lse, d_losses, share, d_lse, d_cos, rows, d, classes, ignored, s, m, cos_m, drop,
    ANGLE: tl.constexpr, EACH: tl.constexpr, R: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """∂/∂log Σ = σ(t) and ∂/∂c = −s·σ(t)·ψ′(c), times the incoming gradient; 0 where that is 0.

    EACH: there is an incoming gradient for each sample; else one for all, to be multiplied by ``share``.
    """
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    _, _, c, _, _, counts, _ = _own(direction, w, labels, r, tl.arange(0, D), rows, d, classes, ignored)
    value, slope = _margin(c, m, cos_m, drop, ANGLE)
    t = tl.load(lse + r, mask=r < rows, other=0.0) - s * value
    e = tl.exp(-tl.abs(t))
    if EACH:
        incoming = tl.load(d_losses + r, mask=r < rows, other=0.0)
    else:
        incoming = tl.load(d_losses) * tl.load(share) + tl.zeros((R,), tl.float32)
    none = (incoming == 0.0) | (counts == 0)
    part = tl.where(none, 0.0, incoming * tl.where(t >= 0.0, 1.0, e) / (1.0 + e))
    tl.store(d_lse + r, part, mask=r < rows)
    tl.store(d_cos + r, tl.where(none, 0.0, -s * part * slope), mask=r < rows)


@triton.jit
def target_backward_kernel(
    direction, lengths, w, labels, d_cos, d_scaled, d_x, d_w, rows, d, classes, ignored, s,
    R: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """dx from the gradients of s·x̂ and of c; adds the share of c to the gradient of w_y, after that of all classes."""
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    k = tl.arange(0, D)
    there = (r < rows)[:, None] & (k < d)[None, :]
    x, u, c, y, inverse, _, _ = _own(direction, w, labels, r, k, rows, d, classes, ignored)
    slope = tl.load(d_cos + r, mask=r < rows, other=0.0)[:, None]
    place = r[:, None] * d + k[None, :]
    g = s * tl.load(d_scaled + place, mask=there, other=0.0) + slope * u
    n = tl.load(lengths + r, mask=r < rows, other=0.0)
    turned = tl.where(n == 0.0, 0.0, 1.0 / tl.where(n == 0.0, 1.0, n))
    tl.store(d_x + place, (g - x * tl.sum(x * g, 1)[:, None]) * turned[:, None], mask=there)
    own = slope * (x - c[:, None] * u) * inverse[:, None]
    tl.atomic_add(d_w + y[:, None] * d + k[None, :], own, mask=there & (slope != 0.0), sem="relaxed")
