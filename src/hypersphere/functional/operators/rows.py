"""Linear layers of compiled graphs in half precision: operations that compilers join with what stands around them.

    u = a·s·g(r·y) + b,   z = act(u),   q′ = Σ z²        y = v·ŵᵀ,   s = h(‖x‖)

Where q = Σ x² is at hand, v = x and r = 1/√q. Else v = x/‖x‖, which is made in the pass that makes x (a LayerNorm,
say), and r = 1. With g = cos the layer is then a product alone: h(‖x‖) is part of v, a of the weights, and b of the
product. The steps have gradients of their own, in few operations; what they keep, compilers compute from y again.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..._core.sphere import sqrt, upcast
from ...kernels.spec import Fields
from ..magnitude import magnitude, magnitude_ratio

JOINED = True
"""Whether compiled graphs have these operations; else they have the kernels."""

_TINY = torch.finfo(torch.float32).tiny
_EPS = torch.finfo(torch.float32).eps
_LARGEST = torch.finfo(torch.float16).max
# asin a = π/2 − √(1−a)·P(a), and Φ(−a) = e^(−a²/2)·t·P(t) with t = 1/(1 + a/4); relative errors 2.4e-5
_ARCSIN = (0.013023536, -0.042709086, 0.087939862, -0.214578221, math.pi / 2)
_NORMAL = (0.245860932, -0.114254724, 0.189406511, 0.077224936, 0.10177413)


def takes(f: Fields, x: Tensor, k: Tensor | None) -> bool:
    """Whether :func:`fused_rows` computes such a layer: linear, in half precision, nothing that counts, a fixed k."""
    linear = not f.window.size and f.norm == "none"
    return JOINED and linear and x.dtype in (torch.bfloat16, torch.float16) and not f.running and k is None


def fused_rows(
    f: Fields,
    x: Tensor,
    q: Tensor | None,
    weight: Tensor,
    scale: Tensor | None,
    shift: Tensor | None,
    rho: Tensor | None,
    leaks: Tensor | None,
    give_q: bool,
) -> tuple[Tensor, Tensor | None]:
    """z and q′ (if asked for) of x (N, C); the arguments are those of :func:`.blocks.fused_block`."""
    wide, half = upcast(x), x.dtype == torch.float16
    radius: Any = f.rho if rho is None else rho
    h = (f.magnitude, f.alpha, f.beta, radius)
    unit, v, r, s = _unit_rows(upcast(weight), half), x, None, None
    if f.angular == "cosine":
        if scale is not None:
            unit, scale = unit * upcast(scale)[:, None], None
        if q is not None:
            r = _Reciprocal.apply(q) if f.is_sphere else magnitude_ratio(sqrt(q), *h)
        elif f.is_sphere:
            v = _Direction.apply(wide, x.dtype, half)
        else:
            v = wide * magnitude_ratio(sqrt(wide.square().sum(1, keepdim=True)), *h)
    else:
        if not f.is_sphere:
            s = magnitude(sqrt(wide.square().sum(1, keepdim=True) if q is None else q), *h)
        r, v = (None, _Direction.apply(wide, x.dtype, half)) if q is None else (_Reciprocal.apply(q), x)
    v = v.to(x.dtype)
    if r is None and f.angular == "cosine":
        y, shift = F.linear(v, unit.to(x.dtype), None if shift is None else shift.to(x.dtype)), None
        if f.activation == "none" and not give_q:
            return y, None
    else:
        room = 2.0 ** math.ceil(math.log2(x.shape[1]) / 2) if r is not None and half else 1.0  # ⟨ŵ, x⟩ may be large
        y = F.linear(v, (unit if room == 1.0 else unit / room).to(x.dtype))
        r = r if r is None or room == 1.0 else r * room
    numbers = (0.0, 1.0)
    if f.angular == "sigmoid" and f.k is not None:
        numbers = 0.5 / f.k, 1.0 / math.tanh(math.pi / (4 * f.k))
    out = _Epilogue.apply(y, r, s, scale, shift, leaks, give_q, f.angular, *numbers, f.activation, f.leak)
    return out if give_q else (out, None)


def _unit_rows(w: Tensor, bounded: bool) -> Tensor:
    """ŵ at any scale, 0 for a row of zeros."""
    return _Direction.apply(w / w.detach().abs().amax(1, keepdim=True).clamp_min(_TINY), w.dtype, bounded)


def _reciprocal_root(q: Tensor) -> Tensor:
    """1/√q, and 0 where q is."""
    return torch.where(q < _TINY, 0.0, q.rsqrt())


class _Reciprocal(torch.autograd.Function):
    """:func:`_reciprocal_root`, with gradient 0 at 0."""

    @staticmethod
    def forward(ctx: Any, q: Tensor) -> Tensor:
        r = _reciprocal_root(q)
        ctx.save_for_backward(r)
        return r

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (r,) = ctx.saved_tensors
        return (grad * r) * (r * r) * -0.5


def _held(x: Tensor, dtype: torch.dtype) -> Tensor:
    """x in a dtype, and in half precision in memory that compilers must fill with it.

    They would drop a rounding that is undone at once, and keep what was not rounded, which is twice as large.
    """
    return x if dtype == torch.float32 else x.to(dtype).contiguous().as_strided(x.shape, (x.shape[1], 1))


class _Direction(torch.autograd.Function):
    """v/‖v‖ of each row in a dtype, 0 for one of zeros; the gradient is (g − v̂⟨v̂, g⟩)/‖v‖.

    ``bounded``: g was float16, and infinities are replaced, because their differences would be NaN.
    """

    @staticmethod
    def forward(ctx: Any, v: Tensor, dtype: torch.dtype, bounded: bool) -> Tensor:
        over = _reciprocal_root(v.square().sum(1, keepdim=True))
        unit = _held(v * over, dtype)
        ctx.bounded, ctx.dtype = bounded, dtype
        ctx.save_for_backward(unit, over)
        return unit

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        unit, over = ctx.saved_tensors
        unit, grad = upcast(unit), upcast(grad)
        if ctx.bounded:
            grad = grad.clamp(-_LARGEST, _LARGEST)
        return upcast(_held((grad - unit * (unit * grad).sum(1, keepdim=True)) * over, ctx.dtype)), None, None


class _Epilogue(torch.autograd.Function):
    """z, and q′ if asked for, from y; sums over rows read what is rounded as y is."""

    @staticmethod
    def forward(
        ctx: Any,
        y: Tensor,
        r: Tensor | None,
        s: Tensor | None,
        scale: Tensor | None,
        shift: Tensor | None,
        leaks: Tensor | None,
        give_q: bool,
        *names: Any,
    ) -> Any:
        wide = upcast(y)
        g, slope = _angular(wide if r is None else wide * r, *names[:3])
        u = g if s is None else g * s
        u = u if scale is None else u * upcast(scale)
        u = u if shift is None else u + upcast(shift)
        out, steep = _activation(u, leaks, *names[3:])
        kept = (wide, r, s, scale, shift, leaks, g, slope, u, out, steep)
        ctx.there, ctx.dtype = [one is not None for one in kept], y.dtype
        ctx.save_for_backward(*[one for one in kept if one is not None])
        return (out.to(y.dtype), out.square().sum(1, keepdim=True)) if give_q else out.to(y.dtype)

    @staticmethod
    def backward(ctx: Any, dz: Tensor, dq: Tensor | None = None) -> tuple[Any, ...]:
        saved = iter(ctx.saved_tensors)
        kept: list[Any] = [next(saved) if one else None for one in ctx.there]
        y, r, s, scale, shift, leaks, g, slope, u, out, steep = kept
        dout = dz if dq is None else dz + 2.0 * dq * out
        du = dz if dq is None and steep is None else _held(dout if steep is None else dout * steep, ctx.dtype)
        ds = dscale = dshift = dleaks = dr = None
        if leaks is not None:
            dleaks = torch.where(u <= 0.0, dout * u, 0.0).sum(0).to(leaks.dtype)
        if shift is not None:
            dshift = du.sum(0, dtype=torch.float32).to(shift.dtype)
        if scale is not None:
            dscale = (du * (g if s is None else g * s)).sum(0).to(scale.dtype)
        if s is not None:
            ds = (du * (g if scale is None else g * upcast(scale))).sum(1, keepdim=True)
        factors = [one for one in (slope, s, None if scale is None else upcast(scale), r) if one is not None]
        dy = _held(functools.reduce(torch.mul, factors) * du, ctx.dtype) if factors else du
        if r is not None:
            along = (dy * y).sum(1, keepdim=True)  # r·dr
            dr = torch.where(r == 0.0, 0.0, along / r)
        return dy, dr, ds, dscale, dshift, dleaks, *[None] * 6


def _angular(c: Tensor, kind: str, half: float, top: float) -> tuple[Tensor, Any]:
    """g and g′ with few instructions, for half precision; None for a slope of 1."""
    if kind == "cosine":
        return c, None
    size = c.abs()
    if kind == "square_cosine":
        return c * size, 2.0 * size
    rest = (1.0 - size).clamp_min(0.5 * _EPS)
    over = rest.rsqrt()
    deviation = math.pi / 2 - rest * over * _polynomial(size, _ARCSIN)
    slope = over * (1.0 + size).rsqrt()
    if kind == "linear":
        return torch.copysign(deviation * (2 / math.pi), c), slope * (2 / math.pi)
    p = torch.sigmoid(deviation * (2.0 * half))  # tanh v = 2p − 1, of slope 4p(1 − p)
    return torch.copysign(p * (2.0 * top) - top, c), (p - p * p) * slope * (4.0 * half * top)


def _activation(u: Tensor, leaks: Tensor | None, kind: str, leak: float) -> tuple[Tensor, Any]:
    """The activation and its slope."""
    match kind:
        case "none":
            return u, None
        case "relu":
            return torch.relu(u), torch.where(u <= 0.0, 0.0, 1.0)
        case "leaky_relu":
            below = leak if leaks is None else upcast(leaks)
            return torch.where(u < 0.0, u * below, u), torch.where(u <= 0.0, below, 1.0)
        case "gelu":
            t = (1.0 + 0.25 * u.abs()).rsqrt().square()  # fewer instructions than a division
            bell = torch.exp(-0.5 * u * u)
            tail = _polynomial(t, _NORMAL) * t * bell
            phi = torch.where(u < 0.0, tail, 1.0 - tail)
            return u * phi, phi + u * (0.3989422804014327 * bell)
        case "gelu_tanh":
            phi = torch.sigmoid(1.5957691216057308 * (u + 0.044715 * u * u * u))
            return u * phi, phi + u * phi * (1.0 - phi) * 1.5957691216057308 * (1.0 + 0.134145 * u * u)
        case _:
            sigma = torch.sigmoid(u)
            return u * sigma, sigma * (1.0 + u * (1.0 - sigma))


def _polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    first, *others = coefficients
    total: Any = first
    for one in others:
        total = total * x + one
    return total
