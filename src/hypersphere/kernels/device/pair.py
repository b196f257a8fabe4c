"""The energy of one pair inside a kernel, from v = 1 − c and w = 1 + c, and its derivative in v.

Euclidean: φ = f(q), q = 2v, f(q) = q^(−s/2), or −½·log q for s = 0. With lengths β: q = (β_i−β_j)² + 2·β_i·β_j·v,
and the same with −β_j and w for the opposite vector.
Angular: φ = θ^(−s), or −log θ, cos θ = c. In half space φ(v) + φ(w), which for s = 2 and s = 0 is as simple as φ alone,
since v + w = 2: 1/(vw) and −½·log 4vw. Below the floor f continues along its tangent, as in
``functional.energy.kernel``. Where v or w is that of one direction, up to sign, the derivative counts as 0. NaN passes
through.
"""

# mypy: ignore-errors
from __future__ import annotations

import triton
import triton.language as tl

_HALF_PI = tl.constexpr(1.5707963267948966)
_PI = tl.constexpr(3.141592653589793)
_EPS = tl.constexpr(1.1920929e-07)
SAME = tl.constexpr(2.842171e-14)  # 2·eps²: ``functional/energy/duplicates.py`` says why


@triton.jit
def pair(
    v, w, a, b, s, floor,
    S: tl.constexpr, ANGULAR: tl.constexpr, HALF: tl.constexpr, WEIGHTED: tl.constexpr,
    GUARD: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    """φ and dφ/dv; a = β_i·β_j and b = (|β_i| − |β_j|)². S is 0, 1 or 2 if s is that number, else −1.

    GUARD: distances may lie below the floor. FAST: use the hardware's logarithm, which the interpreter lacks.
    """
    value, slope = _pair(v, w, a, b, s, floor, S, ANGULAR, HALF, WEIGHTED, GUARD, FAST)
    if GUARD:
        slope = tl.where((v <= SAME) | (w <= SAME), 0.0, slope)
    return value, slope


@triton.jit
def _pair(
    v, w, a, b, s, floor,
    S: tl.constexpr, ANGULAR: tl.constexpr, HALF: tl.constexpr, WEIGHTED: tl.constexpr,
    GUARD: tl.constexpr, FAST: tl.constexpr,
):  # fmt: skip
    if ANGULAR:
        theta = _angle(v, w)
        product = v * w
        steep = _rsqrt(tl.where(product < _EPS, _EPS, product), FAST)  # dθ/dv, limited at the ends as in `angle`
        value, slope = _guarded(theta, s, floor, S, GUARD, FAST)
        if HALF:
            mirrored, back = _guarded(-theta + _PI, s, floor, S, GUARD, FAST)
            value += mirrored
            slope -= back
        return value, slope * steep
    elif WEIGHTED:  # in units of m, the mean square of both lengths, so that no intermediate overflows
        size = tl.abs(a)
        m = size + 0.5 * b
        value, slope = _euclidean((b + 2.0 * size * tl.where(a < 0.0, w, v)) / m, s, floor, S, GUARD, FAST)
        if HALF:
            mirrored, back = _euclidean((b + 2.0 * size * tl.where(a < 0.0, v, w)) / m, s, floor, S, GUARD, FAST)
            value += mirrored
            slope -= back
        slope *= 2.0 * a / m
        if S == 0:
            value -= 0.34657359027997264 * log2(m, FAST)
            if HALF:
                value -= 0.34657359027997264 * log2(m, FAST)
            return value, slope
        else:
            scale = tl.exp2(-0.5 * s * log2(m, FAST))
            return scale * value, scale * slope
    elif HALF and not GUARD and (S == 0 or S == 2):
        product = v * w
        root = _rsqrt(product, FAST)
        r = root * root
        if S == 2:
            return r, (v - w) * (r * r)
        else:
            return -0.34657359027997264 * log2(4.0 * product, FAST), 0.5 * (v - w) * r
    else:
        value, slope = _euclidean(2.0 * v, s, floor, S, GUARD, FAST)
        if HALF:
            mirrored, back = _euclidean(2.0 * w, s, floor, S, GUARD, FAST)
            value += mirrored
            slope -= back
        return value, 2.0 * slope


@triton.jit
def _euclidean(q, s, floor, S: tl.constexpr, GUARD: tl.constexpr, FAST: tl.constexpr):
    if S == 0:
        value, slope = _guarded(q, 0.0, floor, 0, GUARD, FAST)
        return 0.5 * value, 0.5 * slope
    elif S == 1:
        return _guarded(q, 0.5, floor, 3, GUARD, FAST)
    elif S == 2:
        return _guarded(q, 1.0, floor, 1, GUARD, FAST)
    else:
        return _guarded(q, 0.5 * s, floor, -1, GUARD, FAST)


@triton.jit
def _guarded(x, e, floor, KIND: tl.constexpr, GUARD: tl.constexpr, FAST: tl.constexpr):
    """x^(−e) and its derivative; below the floor, the tangent there. KIND 1, 2: e; 3: e = ½; 0: −log x; −1: any e."""
    far = x
    if GUARD:
        far = tl.where(x < floor, floor, x)
    root = _rsqrt(far, FAST)
    r = root * root
    if KIND == 0:
        value = -0.6931471805599453 * log2(far, FAST)
        slope = -r
    elif KIND == 1:
        value = r
        slope = -r * r
    elif KIND == 2:
        value = r * r
        slope = -2.0 * value * r
    elif KIND == 3:
        value = root
        slope = -0.5 * value * r
    else:
        value = tl.exp2(-e * log2(far, FAST))
        slope = -e * value * r
    if GUARD:
        value += slope * (x - far)
    return value, slope


@triton.jit
def _rsqrt(x, FAST: tl.constexpr):
    """1/√x, by one instruction where FAST: relative error 2e-7; numbers below 1e-38 count as 0."""
    if FAST:
        return tl.inline_asm_elementwise(
            "rsqrt.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return tl.rsqrt(x)


@triton.jit
def log2(x, FAST: tl.constexpr):
    """log₂ x, by one instruction where FAST."""
    if FAST:
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:
        return tl.log2(x)


@triton.jit
def _angle(v, w):
    """θ from v = 1 − cos θ and w = 1 + cos θ, by asin of a number up to ½; cosines beyond ±1 count as ±1."""
    least = tl.where(v < w, v, w)
    least = tl.where(least < 0.0, 0.0, least)
    end = least < 0.5  # |c| > ½: θ or π − θ is 2·asin √(least/2)
    t = tl.where(end, tl.sqrt(0.5 * least), 1.0 - least)
    z = t * t
    p = 0.04221851 * z + 0.02414763
    p = p * z + 0.04547709
    p = p * z + 0.07495242
    p = p * z + 0.16666754
    p = t + t * z * p
    sharp = tl.where(end, 2.0 * p, -p + _HALF_PI)
    return tl.where(v < w, sharp, -sharp + _PI) + (v - v)  # NaN passes through
