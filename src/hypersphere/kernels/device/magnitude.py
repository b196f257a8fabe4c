"""h on the map of patch norms: the factor r of the inner product, and the factor s of g.

    cosine g:   r = h(n)/n with its limit at 0, no s
    other g:    r = 1/n (0 at 0), s = h(n)

The radius is ρ times the mean norm: the batch's in training, the running mean in evaluation.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .math import tanh_exact

SPHERE = tl.constexpr(0)
BALL = tl.constexpr(1)
TANH = tl.constexpr(2)
LINEAR = tl.constexpr(3)
SEGMENT = tl.constexpr(4)
LOG = tl.constexpr(5)
MIX = tl.constexpr(6)

_TINY = tl.constexpr(1.1754944e-38)


@triton.jit
def _log1p(n):
    """log(1+n), by its odd series in n/(2+n) where n is small."""
    v = n / (2.0 + n)
    z = v * v
    p = 0.1111111111111111 * z + 0.14285714285714285
    p = p * z + 0.2
    p = p * z + 0.3333333333333333
    p = p * z + 1.0
    return tl.where(n < 0.5, 2.0 * v * p, tl.log(1.0 + n))


@triton.jit
def h_value(n, rho, alpha, beta, H: tl.constexpr):
    if H == SPHERE:
        return tl.where(n < _TINY, 0.0, alpha + 0.0 * n)
    elif H == BALL:
        return alpha * (tl.where(n > rho, rho, n) / rho)
    elif H == TANH:
        t, _ = tanh_exact(n / rho)
        return alpha * t
    elif H == LINEAR:
        return alpha * n
    elif H == SEGMENT:
        return beta * n + (alpha - beta) * tl.where(n > rho, rho, n)
    elif H == LOG:
        return alpha * _log1p(n)
    else:
        return alpha * n + beta * _log1p(n)


@triton.jit
def h_slopes(n, rho, alpha, beta, H: tl.constexpr):
    """h′ in n and in ρ."""
    none = tl.zeros(n.shape, tl.float32)
    if H == BALL:
        inner = tl.where(n < rho, alpha / rho, 0.0)
        return inner, -inner * n / rho
    elif H == TANH:
        _, curve = tanh_exact(n / rho)
        slope = alpha * curve / rho
        return slope, -slope * n / rho
    elif H == LINEAR:
        return none + alpha, none
    elif H == SEGMENT:
        return tl.where(n < rho, alpha, beta) + none, tl.where(n > rho, alpha - beta, 0.0)
    elif H == LOG:
        return alpha / (1.0 + n), none
    elif H == MIX:
        return alpha + beta / (1.0 + n), none
    else:
        return none, none


@triton.jit
def _log_ratio(n):
    """log(1+n)/n and its slope, by series near 0."""
    safe = tl.where(n < 0.03, 1.0, n)
    log = _log1p(safe)
    s = 1.0 + n * (-0.5 + n * (0.3333333333 + n * (-0.25 + n * (0.2 - n * 0.1666666667))))
    d = -0.5 + n * (0.6666666667 + n * (-0.75 + n * (0.8 + n * (-0.8333333333 + n * 0.8571428571))))
    return tl.where(n < 0.03, s, log / safe), tl.where(n < 0.03, d, (safe / (1.0 + safe) - log) / (safe * safe))


@triton.jit
def h_ratio(n, rho, alpha, beta, H: tl.constexpr):
    """h(n)/n and its slopes in n and in ρ."""
    none = tl.zeros(n.shape, tl.float32)
    safe = tl.where(n < _TINY, 1.0, n)
    if H == SPHERE:
        r = tl.where(n < _TINY, 0.0, alpha / safe)
        return r, -r / safe, none
    elif H == BALL:
        outer = n > rho
        over = alpha / tl.where(outer, n, rho)
        return over, tl.where(outer, -over / safe, 0.0), tl.where(n < rho, -over / rho, 0.0)
    elif H == TANH:
        u = n / rho
        z = tl.where(u < 0.2, u * u, 0.0)
        t, curve = tanh_exact(u)
        phi = tl.where(u < 0.2, 1.0 + z * (-0.3333333333 + z * (0.1333333333 - z * 0.0539682540)), t / (safe / rho))
        large = (curve * u - t) / tl.where(u < 0.2, 1.0, u * u)
        small = u * (-0.6666666667 + z * (0.5333333333 + z * (-0.3238095238 + z * 0.1749559083)))
        slope = tl.where(u < 0.2, small, large)
        return alpha / rho * phi, alpha / (rho * rho) * slope, -alpha / (rho * rho) * curve
    elif H == LINEAR:
        return none + alpha, none, none
    elif H == SEGMENT:
        outer = n > rho
        part = (alpha - beta) * (rho / tl.where(outer, n, rho))
        return beta + part, tl.where(outer, -part / safe, 0.0), tl.where(outer, (alpha - beta) / safe, 0.0)
    elif H == LOG:
        value, slope = _log_ratio(n)
        return alpha * value, alpha * slope, none
    else:
        value, slope = _log_ratio(n)
        return alpha + beta * value, beta * slope, none


@triton.jit
def magnitude_kernel(
    norms, rho, sums, running, tracked, radius, r, s,
    TOTAL, count, fixed, alpha, beta, scale, momentum,
    H: tl.constexpr, RATIO: tl.constexpr, RUNNING: tl.constexpr, TRAINING: tl.constexpr, UPDATE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The maps r·scale and s of the norms; program 0 also stores the radius used and updates the running mean."""
    pid = tl.program_id(0)
    reach = fixed
    if rho is not None:
        reach = tl.load(rho).to(tl.float32)
    if RUNNING:
        average = tl.load(running).to(tl.float32)
        mean = average
        if TRAINING:
            batch = (tl.load(sums) / count).to(tl.float32)
            counts = (batch > 0.0) & (batch < float("inf"))
            mean = tl.where(counts, batch, average)
            if UPDATE and (pid == 0):
                seen = tl.load(tracked)
                weight = tl.where(seen == 0, 1.0, momentum)
                tl.store(running, average + (mean - average) * weight)
                tl.store(tracked, seen + counts.to(tl.int64))
        reach = reach * mean
    if pid == 0:
        tl.store(radius, reach)
    i = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < TOTAL
    n = tl.load(norms + i, mask=inside, other=1.0)
    if RATIO:
        value, _, _ = h_ratio(n, reach, alpha, beta, H)
        tl.store(r + i, value * scale, mask=inside)
    else:
        tl.store(r + i, tl.where(n < _TINY, 0.0, scale / tl.where(n < _TINY, 1.0, n)), mask=inside)
        tl.store(s + i, h_value(n, reach, alpha, beta, H), mask=inside)


@triton.jit
def magnitude_backward_kernel(
    norms, radius, gr, gs, out, sums,
    TOTAL, alpha, beta, scale,
    H: tl.constexpr, RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of n² from those of r and s, and that of the radius added to ``sums``."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < TOTAL
    reach = tl.load(radius)
    n = tl.load(norms + i, mask=inside, other=1.0)
    along = tl.load(gr + i, mask=inside, other=0.0) * scale
    zero = n < _TINY
    over = tl.where(zero, 0.0, 1.0 / tl.where(zero, 1.0, n))
    if RATIO:
        _, slope, reaching = h_ratio(n, reach, alpha, beta, H)
        total = along * slope
        wide = along * reaching
    else:
        value = tl.load(gs + i, mask=inside, other=0.0)
        slope, reaching = h_slopes(n, reach, alpha, beta, H)
        total = value * slope - along * over * over
        wide = value * reaching
    tl.store(out + i, 0.5 * total * over, mask=inside)
    if sums is not None:
        tl.atomic_add(sums, tl.sum(tl.where(inside, wide, 0.0), 0).to(tl.float64), sem="relaxed")
