"""The passes of a head over a block of classes: Σ e^u, and the gradient of z before or after that sum is known.

With z_ij = x_i·ŵ_j (the largest over the sub-centers of a class) and u_ij = a_i·f(z_ij) + b_j, f one of

    0 cosine   z                          3 square      z·|z|
    1 linear   (2/π)·asin z               4 fraction    z + σ·(cos(acos(z)/m) − z)
    2 sigmoid  tanh(asin(z)/2k)/tanh(π/4k)  5 curricular  z + σ·(z·(t_i + z) − z) where z > T_i, else z
    6 binary   log(1 + e^v), v = r·(2·((z+1)/2)^t − 1 + m) + σ
    7 curved   the sigmoid with a k of each class, σ_j

σ is a number on the device: the share of the margin, or a learned bias. Products have a float32 accumulator.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .math import angular, arcsin, bent, curvature

FRACTION = tl.constexpr(4)
CURRICULAR = tl.constexpr(5)
BINARY = tl.constexpr(6)
CURVED = tl.constexpr(7)
FLOOR = tl.constexpr(-1.7014117e38)  # half of the lowest float32: a finite −∞
_HALF_PI = tl.constexpr(1.5707963267948966)
_LOG2_E = tl.constexpr(1.4426950216293335)  # as a float32 number, and the rest
_LOG2_E_REST = tl.constexpr(1.9259629911266175e-08)
_LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit(do_not_specialize=["count"])
def split_kernel(a, parts, count, B: tl.constexpr):
    """a = p₁ + p₂ + p₃ with bfloat16 parts, stored one after the other in ``parts``."""
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    there = i < count
    v = tl.load(a + i, mask=there, other=0.0)
    for part in tl.static_range(3):
        p = v.to(tl.bfloat16)
        tl.store(parts + part * tl.cast(count, tl.int64) + i, p, mask=there)
        v = v - p.to(tl.float32)


@triton.jit
def late_kernel(
    x, sums, whole, d_lse, scaled, d_x, factor, rows, d, PARTS: tl.constexpr, R: tl.constexpr, D: tl.constexpr
):
    """k = d_lse/Σ e^u, the gradient of a sample's Σ e^u; k·x in the dtype of ``scaled``; k times the parts' sum."""
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    i = tl.arange(0, D)
    there = (r < rows)[:, None] & (i < d)[None, :]
    place = r[:, None] * d + i[None, :]
    sum_ = tl.load(whole + r, mask=r < rows, other=0.0)
    incoming = tl.load(d_lse + r, mask=r < rows, other=0.0)
    none = (incoming == 0.0) | (sum_ == 0.0)
    k = tl.where(none, 0.0, incoming / tl.where(none, 1.0, sum_))
    tl.store(factor + r, k, mask=r < rows)
    v = tl.load(x + place, mask=there, other=0.0).to(tl.float32) * k[:, None]
    tl.store(scaled + place, v.to(scaled.dtype.element_ty), mask=there)
    g = tl.load(sums + place, mask=there, other=0.0)
    for part in tl.static_range(1, PARTS):
        g += tl.load(sums + place + part * tl.cast(rows, tl.int64) * d, mask=there, other=0.0)
    tl.store(d_x + place, tl.where(none[:, None], 0.0, g * k[:, None]), mask=there)


@triton.jit
def _rule(z, t, threshold, p0, p1, p2, sigma, F: tl.constexpr, FAST: tl.constexpr):
    """f(z), f′(z) and, for the rules in which it is learned, ∂f/∂σ."""
    if F == FRACTION:
        deviation, slope = arcsin(z, FAST)
        turned = (_HALF_PI - deviation) * p0
        value, slope = z + sigma * (tl.cos(turned) - z), 1.0 + sigma * (tl.sin(turned) * slope * p0 - 1.0)
        return value, slope, slope
    elif F == CURRICULAR:
        hard = z > threshold[:, None]
        value = tl.where(hard, z * (t[:, None] + z), z)
        slope = tl.where(hard, t[:, None] + 2.0 * z, 1.0)
        slope = 1.0 + sigma * (slope - 1.0)
        return z + sigma * (value - z), slope, slope
    elif F == BINARY:
        h = tl.maximum(0.5 * z + 0.5, 0.0)
        log = tl.log2(tl.where(h > 0.0, h, 1.0))
        power = tl.where(h > 0.0, tl.exp2((p2 - 1.0) * log), 0.0)
        v = p0 * (2.0 * power * h - 1.0 + p1) + sigma
        e = tl.exp(-tl.abs(v))
        logistic = tl.where(v >= 0.0, 1.0, e) / (1.0 + e)
        return tl.maximum(v, 0.0) + log1p(e), logistic * p0 * p2 * power, logistic
    elif F == CURVED:
        half, top = curvature(sigma)
        deviation, steep, bend, curve = bent(z, half, False)
        value = bend * top
        turn = 2.0 * half * (value * (top - 1.0 / top) * _HALF_PI - curve * deviation * top)
        turn = turn * half  # half² of a tiny k is infinite
        return value, curve * steep * half * top, turn
    else:
        value, slope = angular(z, p0, p1, F, FAST)
        return value, slope, slope


@triton.jit
def log1p(e):
    """log(1 + e) for 0 ≤ e ≤ 1, by its odd series in e/(2 + e) where e is small."""
    v = e / (2.0 + e)
    s = v * v
    series = 2.0 * v * (1.0 + s * (0.3333333333 + s * (0.2 + s * 0.1428571429)))
    return tl.where(e < 0.25, series, tl.log(1.0 + e))


@triton.jit
def _exp(u, FAST: tl.constexpr):
    """e^u; unless FAST, with what u·log₂e loses by rounding."""
    if FAST:
        return tl.exp(u)
    else:
        power = u * _LOG2_E
        lost = tl.fma(u, _LOG2_E, -power) + u * _LOG2_E_REST
        return tl.exp2(power) * (1.0 + lost * _LN_2)


@triton.jit
def _products(
    x, w, n, c, samples, classes, d, k, K: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr
):
    """x_n·w_(c, k) of a tile; samples and classes beyond the last one repeat it. EVEN: d is a multiple of BK."""
    i = tl.arange(0, BK)
    x_at = x + tl.minimum(n, samples - 1).to(tl.int64)[:, None] * d + i[None, :]
    w_at = w + (tl.minimum(c, classes - 1).to(tl.int64) * K + k)[None, :] * d + i[:, None]
    sums = tl.zeros((n.shape[0], c.shape[0]), tl.float32)
    for start in range(0, d, BK):
        if EVEN:
            a = tl.load(x_at)
            b = tl.load(w_at)
        else:
            a = tl.load(x_at, mask=(i < d - start)[None, :], other=0.0)
            b = tl.load(w_at, mask=(i < d - start)[:, None], other=0.0)
        if PRECISION == "ieee":  # the interpreter does not multiply bfloat16
            a, b = a.to(tl.float32), b.to(tl.float32)
        sums = tl.dot(a, b, sums, input_precision=PRECISION)
        x_at += BK
        w_at += BK
    return sums


@triton.jit
def _closest(
    x, w, n, c, samples, classes, d, K: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr, PRECISION: tl.constexpr
):
    """The largest product over the sub-centers, and which one it is."""
    z = _products(x, w, n, c, samples, classes, d, 0, K, BK, EVEN, PRECISION)
    which = tl.zeros(z.shape, tl.int32)
    for k in tl.static_range(1, K):
        other = _products(x, w, n, c, samples, classes, d, k, K, BK, EVEN, PRECISION)
        which = tl.where(other > z, k, which)
        z = tl.where((other > z) | (other != other), other, z)
    return z, which


@triton.jit(do_not_specialize=["first", "tile", "tiles"])
def sums_kernel(
    x, w, labels, amplitude, threshold, t, bias, q, sigma, part_max, part_sum, part_total,
    samples, classes, d, first, tile, tiles, p0, p1, p2,
    F: tl.constexpr, K: tl.constexpr, AMPLITUDE: tl.constexpr, BIAS: tl.constexpr, LSE: tl.constexpr,
    TOTAL: tl.constexpr, FAST: tl.constexpr, PRECISION: tl.constexpr,
    BN: tl.constexpr, BC: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """For each sample and tile of classes: max u, Σ e^(u − max) and Σ q·u, without the sample's own class."""
    rows = tl.cdiv(samples, BN)
    pid = tl.program_id(0)
    column = pid // rows
    n = (pid % rows) * BN + tl.arange(0, BN)
    c = column * BC + tl.arange(0, BC)
    z, _ = _closest(x, w, n, c, samples, classes, d, K, BK, EVEN, PRECISION)
    own = tl.load(labels + n, mask=n < samples, other=-1) - first
    u = _logits(z, n, c, samples, classes, amplitude, threshold, t, bias, sigma, p0, p1, p2, F, AMPLITUDE, BIAS, FAST)
    counts = (c < classes)[None, :] & (c[None, :] != own[:, None])
    at = n.to(tl.int64) * tiles + tile + column
    if LSE:
        kept = tl.where(counts, u, FLOOR)
        top = tl.max(kept, 1)
        tl.store(part_max + at, top, mask=n < samples)
        tl.store(part_sum + at, tl.sum(tl.where(counts, tl.exp(u - top[:, None]), 0.0), 1), mask=n < samples)
    if TOTAL == 1:
        tl.store(part_total + at, tl.sum(tl.where(counts, u, 0.0), 1), mask=n < samples)
    if TOTAL == 2:
        share = tl.load(q + c, mask=c < classes, other=0.0)
        tl.store(part_total + at, tl.sum(tl.where(counts, u * share[None, :], 0.0), 1), mask=n < samples)


@triton.jit
def _logits(
    z, n, c, samples, classes, amplitude, threshold, t, bias, sigma, p0, p1, p2,
    F: tl.constexpr, AMPLITUDE: tl.constexpr, BIAS: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    limit, mean, number = _numbers(n, c, samples, classes, threshold, t, sigma, F)
    u, _, _ = _rule(z, mean, limit, p0, p1, p2, number, F, FAST)
    if AMPLITUDE:
        u = u * tl.load(amplitude + n, mask=n < samples, other=0.0)[:, None]
    if BIAS:
        u = u + tl.load(bias + c, mask=c < classes, other=0.0).to(tl.float32)[None, :]
    return u


@triton.jit
def _numbers(n, c, samples, classes, threshold, t, sigma, F: tl.constexpr):
    """T_i, t_i and σ, or σ_j, if the rule has them."""
    limit = tl.zeros(n.shape, tl.float32)
    mean = limit
    number = 0.0
    if F == CURRICULAR:
        limit = tl.load(threshold + n, mask=n < samples, other=0.0)
        mean = tl.load(t + n, mask=n < samples, other=0.0)
    if F == CURVED:
        number = tl.load(sigma + c, mask=c < classes, other=1.0)[None, :]
    elif F >= FRACTION:
        number = tl.load(sigma).to(tl.float32)
    return limit, mean, number


@triton.jit(do_not_specialize=["first", "tile", "tiles"])
def gradient_kernel(
    x, w, labels, amplitude, threshold, t, bias, q, sigma, lse, d_lse, d_total, out, part_sum, d_amplitude, d_bias,
    d_sigma,
    samples, classes, width, d, first, tile, tiles, p0, p1, p2,
    F: tl.constexpr, K: tl.constexpr, AMPLITUDE: tl.constexpr, BIAS: tl.constexpr, LSE: tl.constexpr,
    TOTAL: tl.constexpr, FAST: tl.constexpr, PRECISION: tl.constexpr,
    BN: tl.constexpr, BC: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """The gradient of z in rows of ``width``; 0 for all but the closest sub-center, and beyond the last class.

    Also the sums over j of the gradient of a_i, and the gradients of b_j and σ. LSE = 1: of log Σ e^u. LSE = 2: of
    Σ e^u, of which this tile's part is stored, too: the sum need not be known.
    """
    rows = tl.cdiv(samples, BN)
    pid = tl.program_id(0)
    column = pid // rows
    n = (pid % rows) * BN + tl.arange(0, BN)
    c = column * BC + tl.arange(0, BC)
    z, which = _closest(x, w, n, c, samples, classes, d, K, BK, EVEN, PRECISION)
    own = tl.load(labels + n, mask=n < samples, other=-1) - first
    counts = (n < samples)[:, None] & (c < classes)[None, :] & (c[None, :] != own[:, None])
    limit, mean, number = _numbers(n, c, samples, classes, threshold, t, sigma, F)
    value, slope, turn = _rule(z, mean, limit, p0, p1, p2, number, F, FAST)
    u = value
    size = tl.full((BN,), 1.0, tl.float32)
    if AMPLITUDE:
        size = tl.load(amplitude + n, mask=n < samples, other=0.0)
        u = u * size[:, None]
    if BIAS:
        u = u + tl.load(bias + c, mask=c < classes, other=0.0).to(tl.float32)[None, :]
    at = n.to(tl.int64) * tiles + tile + column
    g = tl.zeros(z.shape, tl.float32)
    if LSE == 2:
        g = tl.where(counts, _exp(u, FAST), 0.0)
        tl.store(part_sum + at, tl.sum(g, 1), mask=n < samples)
    elif LSE:
        top = tl.load(lse + n, mask=n < samples, other=0.0)
        g = tl.exp(u - top[:, None]) * tl.load(d_lse + n, mask=n < samples, other=0.0)[:, None]
    if TOTAL:
        more = tl.load(d_total + n, mask=n < samples, other=0.0)[:, None] + tl.zeros(z.shape, tl.float32)
        if TOTAL == 2:
            more = more * tl.load(q + c, mask=c < classes, other=0.0)[None, :]
        g += more
    g = tl.where(counts, g, 0.0)
    if AMPLITUDE:
        tl.store(d_amplitude + at, tl.sum(g * value, 1), mask=n < samples)
    if BIAS:
        tl.atomic_add(d_bias + c, tl.sum(g, 0), mask=c < classes)
    if F == BINARY:
        tl.atomic_add(d_sigma, tl.sum(tl.sum(g * turn, 1), 0))
    if F == CURVED:
        tl.atomic_add(d_sigma + c, tl.sum(g * turn * size[:, None], 0), mask=c < classes)
    g = g * slope * size[:, None]
    for k in tl.static_range(K):
        part = g if K == 1 else tl.where(which == k, g, 0.0)
        there = c * K + k
        place = out + n.to(tl.int64)[:, None] * width + there[None, :]
        tl.store(place, part.to(out.dtype.element_ty), mask=(n < samples)[:, None] & (there < width)[None, :])


@triton.jit(do_not_specialize=["tiles"])
def finish_kernel(
    part_max,
    part_sum,
    part_total,
    lse,
    total,
    exponentials,
    tiles,
    T: tl.constexpr,
    LSE: tl.constexpr,
    TOTAL: tl.constexpr,
):
    """log Σ e^u and Σ q·u of a sample (0 if not asked for) from the tiles' sums; LSE = 2: no maximum was taken out."""
    n = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, T)
    if LSE == 2:
        sums = tl.zeros((T,), tl.float32)
        for start in range(0, tiles, T):
            sums += tl.load(part_sum + n * tiles + start + i, mask=start + i < tiles, other=0.0)
        whole = tl.sum(sums, 0)
        tl.store(exponentials + n, whole)
        tl.store(lse + n, tl.where(whole == 0.0, FLOOR, tl.log(tl.where(whole == 0.0, 1.0, whole))))
    elif LSE:
        top = tl.full((T,), FLOOR, tl.float32)
        for start in range(0, tiles, T):
            here = tl.load(part_max + n * tiles + start + i, mask=start + i < tiles, other=FLOOR)
            top = tl.where(here > top, here, top)
        largest = tl.max(top, 0)
        sums = tl.zeros((T,), tl.float32)
        for start in range(0, tiles, T):
            there = start + i < tiles
            here = tl.load(part_max + n * tiles + start + i, mask=there, other=FLOOR)
            part = tl.load(part_sum + n * tiles + start + i, mask=there, other=0.0)
            sums += part * tl.exp(here - largest)
        whole = tl.sum(sums, 0)
        tl.store(lse + n, tl.where(whole == 0.0, FLOOR, largest + tl.log(tl.where(whole == 0.0, 1.0, whole))))
    else:
        tl.store(lse + n, 0.0)
    sums = tl.zeros((T,), tl.float32)
    if TOTAL:
        for start in range(0, tiles, T):
            sums += tl.load(part_total + n * tiles + start + i, mask=start + i < tiles, other=0.0)
    tl.store(total + n, tl.sum(sums, 0))
