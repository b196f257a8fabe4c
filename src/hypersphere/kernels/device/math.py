"""g, its slope and the activations inside a kernel.

With c = cos θ and a = |c|, exact for float32 outputs (relative error about 2e-7):

    asin a = a + a·z·R(z), z = a²                 for a ≤ 1/2
    asin a = π/2 − 2(t + t·z·R(z)), z = t² = (1−a)/2   otherwise

FAST = 1 (for outputs that are scaled before rounding) needs one more reciprocal root for the slope; its relative error
is 4e-6. FAST = 2 (half-precision outputs) needs one in all; its error is 8e-5 (2e-4 at 1), and it is exactly 0 at 0:

    asin a = π/2 − √(1−a)·P(a)
    asin a = π/2 − √(1−a²)·Q(a)

NaN passes through every function: branching comparisons are written so that NaN fails them.
"""

from __future__ import annotations

import triton
import triton.language as tl

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
def _signed(value, c):
    """value with its sign flipped where c is negative."""
    sign = c.to(tl.int32, bitcast=True) & -2147483648
    return (value.to(tl.int32, bitcast=True) ^ sign).to(tl.float32, bitcast=True)


@triton.jit
def arcsin(c, FAST: tl.constexpr):
    """asin c and 1/√(1−c²); beyond ±1 the values at ±1."""
    a = tl.abs(c)
    if FAST == 2:
        d = tl.maximum(1.0 - c * c, _EPS, propagate_nan=tl.PropagateNan.ALL)
        slope = tl.rsqrt(d)
        p = -0.1130022 * a + 0.37375245
        p = p * a - 0.61275648
        p = p * a + 0.78036376
        p = p * a - 0.99992364
        p = p * a + _HALF_PI
        value = -(d * slope) * p + _HALF_PI
    elif FAST:
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
        t = tl.where(small, a, tl.sqrt(0.5 - 0.5 * a))
        z = t * t
        r = 0.042166308 * z + 0.024179515
        r = r * z + 0.045470376
        r = r * z + 0.074952976
        r = r * z + 0.16666752
        p = t + t * (z * r)
        value = tl.where(small, p, -2.0 * p + _HALF_PI)
        d = (1.0 - a) * (1.0 + a)
        slope = tl.rsqrt(tl.where(d < _EPS, _EPS, d))
    return _signed(value, c), slope


@triton.jit
def _tanh_above(u):
    """tanh u and 1 − tanh²u of u ≥ 0: by a polynomial where u is small, else by e = exp(−2u); relative errors 5e-7.

    1/(1+e) is the square of a reciprocal root, which takes fewer instructions than a division.
    """
    e = tl.exp2(-2.8853900817779268 * u)
    root = tl.rsqrt(1.0 + e)
    over = root * root
    z = u * u
    p = -0.05036624 * z + 0.13314832
    p = p * z - 0.33333061
    return tl.where(u < 0.3, u + u * (z * p), (1.0 - e) * over), 4.0 * e * (over * over)


@triton.jit
def tanh_exact(u):
    """tanh u and 1 − tanh²u."""
    value, curve = _tanh_above(tl.abs(u))
    return _signed(value, u), curve


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
def bent(c, half, FAST: tl.constexpr):
    """Of the sigmoid: θ′ = asin c, dθ′/dc, t = tanh(θ′/2k) and 1 − t²."""
    if FAST:
        deviation, slope = arcsin(c, FAST)
        t, curve = _tanh(deviation * half, FAST)
    else:
        deviation, slope = arcsin(tl.abs(c), False)
        t, curve = _tanh_above(deviation * half)
        t = _signed(t, c)
        deviation = _signed(deviation, c)
    return deviation, slope, t, curve


@triton.jit
def bare(c, half, G: tl.constexpr, FAST: tl.constexpr):
    """g(c) and g′(c), each without the factor that :func:`gains` gives."""
    if G == COSINE:
        return c, tl.full(c.shape, 1.0, tl.float32)
    elif G == SQUARE:
        a = tl.abs(c)
        return c * a, a
    elif G == LINEAR:
        return arcsin(c, FAST)
    else:
        _deviation, slope, t, curve = bent(c, half, FAST)
        return t, curve * slope


@triton.jit
def gains(half, top, G: tl.constexpr):
    """The factors that :func:`bare` omits; ``half`` and ``top`` are those of :func:`curvature`."""
    if G == COSINE:
        return 1.0, 1.0
    elif G == SQUARE:
        return 1.0, 2.0
    elif G == LINEAR:
        return _TWO_OVER_PI, _TWO_OVER_PI
    else:
        return top, half * top


@triton.jit
def angular(c, half, top, G: tl.constexpr, FAST: tl.constexpr):
    """g(c) and g′(c)."""
    g, slope = bare(c, half, G, FAST)
    high, steep = gains(half, top, G)
    return g * high, slope * steep


@triton.jit
def _scaled_asin(c, m):
    """m·asin c for half precision without a slope: no reciprocal root is needed; NaN passes through Q."""
    a = tl.abs(c)
    root = tl.inline_asm_elementwise(
        "{ .reg .f32 d; fma.rn.sat.ftz.f32 d, $1, $2, 0f3F800000; sqrt.approx.ftz.f32 $0, d; }",
        "=f,f,f", [c, -c], dtype=tl.float32, is_pure=True, pack=1,
    )  # fmt: skip
    p = (-0.1130022 * m) * a + (0.37375245 * m)
    p = p * a + (-0.61275648 * m)
    p = p * a + (0.78036376 * m)
    p = p * a + (-0.99992364 * m)
    p = p * a + (_HALF_PI * m)
    return _signed(-root * p + _HALF_PI * m, c)


@triton.jit
def angular_value(c, half, G: tl.constexpr, FAST: tl.constexpr, MANY: tl.constexpr):
    """g(c), without the factor ``top`` of the sigmoid; MANY: ``half`` is one number for each channel."""
    if (FAST == 2) and (G == LINEAR):
        return _scaled_asin(c, _TWO_OVER_PI)
    elif (FAST == 2) and (G == SIGMOID):
        if MANY:
            t, _curve = _tanh(_scaled_asin(c, 1.0) * half, FAST)
        else:
            t, _curve = _tanh(_scaled_asin(c, half), FAST)
        return t
    elif G == SIGMOID:
        _deviation, _slope, t, _curve = bent(c, half, FAST)
        return t
    else:
        g, _slope = angular(c, half, 1.0, G, FAST)
        return g


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
    """∂g/∂k of the sigmoid from g and c; for k > 2, where the two terms cancel, by a series."""
    deviation, _ = arcsin(c, False)
    t = g / top
    end = 1.0 / top
    steep = (t * (1.0 - end * end) * (0.5 * _HALF_PI) - (1.0 - t * t) * end * deviation * 0.5) * top * top
    steep = steep / k / k  # the square of a tiny k is 0
    return tl.where(k > 2.0, g * (_series(t * t) - _series(end * end)) / k, steep)


@triton.jit
def k_part(t, curve, v):
    """t − (1 − t²)·v for t = tanh v, by a series where the two terms cancel."""
    z = t * t
    p = 0.031746031746031744 * z + 0.05714285714285714
    p = p * z + 0.13333333333333333
    p = p * z + 0.6666666666666666
    return tl.where(z < 0.0625, p * z * t, t - curve * v)


@triton.jit
def k_total(one, other, k, top):
    """The gradient of k from sums over t and over :func:`k_part`; for k > 2 the first factor comes from a series."""
    over = 1.0 / k
    end = 1.0 / top
    steep = ((top * top - 1.0) * (0.5 * _HALF_PI) - top * k) * over * end
    return (other + one * tl.where(k > 2.0, -_series(end * end), steep)) * top * over


@triton.jit
def _normal(x):
    """Φ(x) and e^(−x²/2), which both take: Φ(−|x|) = e^(−x²/2)·P(t), t = 1/(1+0.318·|x|); relative error 1e-6."""
    root = tl.rsqrt(0.31819805153394637 * tl.abs(x) + 1.0)
    t = root * root
    bell = tl.exp2(-0.7213475204444817 * x * x)
    p = 0.032838160314 * t - 0.117554225089
    p = p * t + 0.099784229688
    p = p * t + 0.02459939862
    p = p * t + 0.091864560714
    p = p * t + 0.114816250022
    p = p * t + 0.126688523255
    p = p * t + 0.126963243408
    tail = p * t * bell
    return tl.where(x < 0.0, tail, 1.0 - tail), bell


@triton.jit
def activate(x, leak, ACT: tl.constexpr):
    if ACT == RELU:
        return tl.maximum(x, 0.0, propagate_nan=tl.PropagateNan.ALL)
    elif ACT == LEAKY:
        return tl.where(x < 0.0, x * leak, x)
    elif ACT == GELU:
        phi, _ = _normal(x)
        return x * phi
    elif ACT == GELU_TANH:
        t, _ = tanh_exact(0.7978845608028654 * (x + 0.044715 * x * x * x))
        return x * (0.5 + 0.5 * t)
    elif ACT == SILU:
        return x / (1.0 + tl.exp(-x))
    else:
        return x


@triton.jit
def activation_slope(x, leak, ACT: tl.constexpr):
    """The slope of an activation that is neither the identity nor relu."""
    if ACT == LEAKY:
        return tl.where(x <= 0.0, leak, 1.0)
    elif ACT == GELU:
        phi, bell = _normal(x)
        return phi + x * (0.3989422804014327 * bell)
    elif ACT == GELU_TANH:
        t, curve = tanh_exact(0.7978845608028654 * (x + 0.044715 * x * x * x))
        return 0.5 + 0.5 * t + 0.5 * x * curve * 0.7978845608028654 * (1.0 + 0.134145 * x * x)
    else:
        s = 1.0 / (1.0 + tl.exp(-x))
        return s * (1.0 + x * (1.0 - s))


@triton.jit
def pulled(du, along, u, leak, HAS_Q: tl.constexpr, ACT: tl.constexpr):
    """The gradient of u from those of z = act(u) and of Σ z² (``along``); also the gradient of z including the latter.

    The slope of relu at 0 is 0, as in torch.
    """
    if ACT == RELU:
        if HAS_Q:
            du = du + (2.0 * along) * u
        return tl.where(u <= 0.0, 0.0, du), du
    else:
        if HAS_Q:
            du = du + (2.0 * along) * activate(u, leak, ACT)
        total = du
        if ACT != NONE:
            du = du * activation_slope(u, leak, ACT)
        return du, total
