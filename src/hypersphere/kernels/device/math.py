"""g, its slope and the activations inside a kernel.

With c = cos θ and a = |c|, exact for float32 outputs (relative error about 1e-7):

    asin a = a + a·z·R(z), z = a²                 for a ≤ 1/2
    asin a = π/2 − 2(t + t·z·R(z)), z = t² = (1−a)/2   otherwise

and for half-precision outputs, with one reciprocal root and relative error 4e-6:

    asin a = π/2 − √(1−a)·P(a), exactly 0 at 0.

NaN passes through every function: comparisons that decide are written so that NaN fails them.
"""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["activate", "activation_slope", "angular", "angular_k_slope", "curvature", "tanh_exact"]

COSINE = tl.constexpr(0)
LINEAR = tl.constexpr(1)
SIGMOID = tl.constexpr(2)
SQUARE = tl.constexpr(3)

NONE = tl.constexpr(0)
RELU = tl.constexpr(1)
LEAKY = tl.constexpr(2)  # and PReLU: the slope of the negative half comes as a number or per channel
GELU = tl.constexpr(3)
GELU_TANH = tl.constexpr(4)
SILU = tl.constexpr(5)

_EPS = tl.constexpr(1.1920929e-07)  # of float32: the slope of asin at ±1 is taken as 1/√eps
_HALF_PI = tl.constexpr(1.5707963267948966)
_TWO_OVER_PI = tl.constexpr(0.6366197723675814)


@triton.jit
def _asin(c, FAST: tl.constexpr):
    """asin c and 1/√(1−c²); beyond ±1 the values at ±1."""
    a = tl.abs(c)
    if FAST:
        d = tl.maximum(1.0 - a, 0.5 * _EPS, propagate_nan=tl.PropagateNan.ALL)
        s = tl.rsqrt(d)
        p = -0.00690587 * a + 0.02466737
        p = p * a - 0.04868155
        p = p * a + 0.08888907
        p = p * a - 0.2146018366025517
        p = p * a + _HALF_PI
        value = -d * s * p + _HALF_PI
        slope = s * tl.rsqrt(1.0 + tl.minimum(a, 1.0, propagate_nan=tl.PropagateNan.ALL))
    else:
        a = tl.where(a > 1.0, 1.0, a)
        small = a <= 0.5
        z = tl.where(small, a * a, 0.5 - 0.5 * a)
        t = tl.where(small, a, tl.sqrt(z))
        r = 0.03756521 * z + 0.0144026
        r = r * z + 0.03181761
        r = r * z + 0.04451572
        r = r * z + 0.07500511
        r = r * z + 0.1666666
        p = t + t * z * r
        value = tl.where(small, p, -2.0 * p + _HALF_PI)
        d = (1.0 - a) * (1.0 + a)
        slope = tl.rsqrt(tl.where(d < _EPS, _EPS, d))
    return tl.where(c < 0.0, -value, value), slope


@triton.jit
def tanh_exact(u):
    """tanh u by its polynomial where it is small, else by exp, and 1 − tanh²u: relative errors 2e-7."""
    a = tl.abs(u)
    z = tl.where(a < 0.6, a * a, 0.0)
    p = -0.00586322 * z + 0.02076359
    p = p * z - 0.05377185
    p = p * z + 0.13331729
    p = p * z - 0.33333285
    p = p * z + 1.0
    e = tl.exp(-2.0 * a)
    large = (1.0 - e) / (1.0 + e)
    value = tl.where(a < 0.6, a * p, large)
    return tl.where(u < 0.0, -value, value), 4.0 * e / ((1.0 + e) * (1.0 + e))


@triton.jit
def _tanh(u, FAST: tl.constexpr):
    if FAST:
        t = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [u], dtype=tl.float32, is_pure=True, pack=1)
        return t, 1.0 - t * t
    else:
        return tanh_exact(u)


@triton.jit
def curvature(k):
    """1/2k and 1/tanh(π/4k) of the sigmoid."""
    half = 0.5 / k
    end, _ = tanh_exact(half * _HALF_PI)
    return half, 1.0 / end


@triton.jit
def angular(c, half, top, G: tl.constexpr, FAST: tl.constexpr):
    """g(c) and g′(c); ``half`` and ``top`` are those of :func:`curvature`, as numbers or per channel."""
    if G == COSINE:
        return c, tl.full(c.shape, 1.0, tl.float32)
    elif G == SQUARE:
        a = tl.abs(c)
        return c * a, 2.0 * a
    else:
        deviation, slope = _asin(c, FAST)
        if G == LINEAR:
            return deviation * _TWO_OVER_PI, slope * _TWO_OVER_PI
        else:
            t, curve = _tanh(deviation * half, FAST)
            return t * top, curve * slope * (half * top)


@triton.jit
def _series(x):
    total = 0.00784313725490196 * x
    total = (total + 0.010256410256410256) * x
    total = (total + 0.013986013986013986) * x
    total = (total + 0.020202020202020204) * x
    total = (total + 0.031746031746031744) * x
    total = (total + 0.05714285714285714) * x
    total = (total + 0.13333333333333333) * x
    return (total + 0.6666666666666666) * x


@triton.jit
def angular_k_slope(g, c, k, half, top):
    """∂g/∂k of the sigmoid from g and c; for k > 2, where the two terms cancel, by the series of both."""
    deviation, _ = _asin(c, False)
    t = g / top
    end = 1.0 / top
    steep = (t * (1.0 - end * end) * (0.5 * _HALF_PI) - (1.0 - t * t) * end * deviation * 0.5) * top * top / (k * k)
    return tl.where(k > 2.0, g * (_series(t * t) - _series(end * end)) / k, steep)


@triton.jit
def activate(x, leak, ACT: tl.constexpr):
    if ACT == RELU:
        return tl.where(x < 0.0, 0.0, x)
    elif ACT == LEAKY:
        return tl.where(x < 0.0, x * leak, x)
    elif ACT == GELU:
        return x * (0.5 + 0.5 * tl.erf(x * 0.7071067811865476))
    elif ACT == GELU_TANH:
        t, _ = tanh_exact(0.7978845608028654 * (x + 0.044715 * x * x * x))
        return x * (0.5 + 0.5 * t)
    elif ACT == SILU:
        return x / (1.0 + tl.exp(-x))
    else:
        return x


@triton.jit
def activation_slope(x, leak, ACT: tl.constexpr):
    """The slope of an activation that is not the identity; 0 for relu at 0 as in torch."""
    if ACT == RELU:
        return tl.where(x <= 0.0, 0.0, 1.0)
    elif ACT == LEAKY:
        return tl.where(x <= 0.0, leak, 1.0)
    elif ACT == GELU:
        bell = 0.3989422804014327 * tl.exp(-0.5 * x * x)
        return 0.5 + 0.5 * tl.erf(x * 0.7071067811865476) + x * bell
    elif ACT == GELU_TANH:
        t, curve = tanh_exact(0.7978845608028654 * (x + 0.044715 * x * x * x))
        return 0.5 + 0.5 * t + 0.5 * x * curve * 0.7978845608028654 * (1.0 + 0.134145 * x * x)
    else:
        s = 1.0 / (1.0 + tl.exp(-x))
        return s * (1.0 + x * (1.0 - s))
