"""Linear layers with g = cos in compiled graphs, in half precision: operations that compilers join with others.

    u = a·h(‖x‖)·cos θ + b = r·v·(aŵ)ᵀ + b,   z = act(u),   q′ = Σ z²

Where q = Σ x² is at hand, v = x and r = h(√q)/√q. Else r = 1 and v = x·h(‖x‖)/‖x‖, which is made in the pass that makes
x (a LayerNorm, say), and b is part of the product. The steps have gradients of their own, in few operations; what they
keep, compilers compute from y again. A g that takes more instructions is left to the kernels, which are faster there.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..._core.sphere import upcast
from ...kernels.spec import Fields
from ..magnitude import magnitude_ratio

_TINY = torch.finfo(torch.float32).tiny
_ZERO = 1e-32  # n² of what counts as a row of zeros, as in the kernels: the gradient of q grows like 1/n²
_LARGEST = torch.finfo(torch.float16).max
# Φ(−a) = e^(−a²/2)·t·P(t), t = 1/(1 + a/4): relative error 2.4e-5
_NORMAL = (0.245860932, -0.114254724, 0.189406511, 0.077224936, 0.10177413)


def takes(f: Fields, x: Tensor) -> bool:
    """Whether :func:`fused_rows` computes such a layer: linear, g = cos, in half precision, nothing that counts."""
    linear = not f.window.size and f.norm == "none" and f.angular == "cosine"
    return linear and x.dtype in (torch.bfloat16, torch.float16) and not f.running


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
    unit, v, r = _unit_rows(upcast(weight), half), x, None
    if scale is not None:
        unit = unit * upcast(scale)[:, None]
    if q is not None:
        r = magnitude_ratio(_root(q), *h)
        room = 2.0 ** math.ceil(math.log2(x.shape[1]) / 2) if half else 1.0  # ⟨ŵ, x⟩ may be large
        y = F.linear(v, (unit / room if half else unit).to(x.dtype))
        r = r * room if half else r
    else:
        n = None if f.is_sphere else _root(wide.square().sum(1, keepdim=True))
        v = _Direction.apply(wide, half) if n is None else wide * magnitude_ratio(n, *h)
        b, shift = None if shift is None else shift.to(x.dtype), None
        y = F.linear(v.to(x.dtype), unit.to(x.dtype), b)
        if f.activation == "none" and not give_q:
            return y, None
    out = _Epilogue.apply(y, r, shift, leaks, give_q, f.activation, f.leak)
    return out if give_q else (out, None)


def _unit_rows(w: Tensor, bounded: bool) -> Tensor:
    """ŵ at any scale, 0 for a row of zeros."""
    return _Direction.apply(w / w.detach().abs().amax(1, keepdim=True).clamp_min(_TINY), bounded)


def _root(q: Tensor) -> Tensor:
    """√q, with gradient 0 where q counts as 0."""
    zero = q < _ZERO
    return torch.where(zero, 0.0, torch.where(zero, 1.0, q).sqrt())


class _Direction(torch.autograd.Function):
    """v/‖v‖ of each row, 0 for one of zeros; the gradient is (g − v̂⟨v̂, g⟩)/‖v‖.

    ``bounded``: g was float16, and infinities are replaced, because their differences would be NaN.
    """

    @staticmethod
    def forward(ctx: Any, v: Tensor, bounded: bool) -> Tensor:
        q = v.square().sum(1, keepdim=True)
        over = torch.where(q < _ZERO, 0.0, q.rsqrt())
        unit = v * over
        ctx.bounded = bounded
        ctx.save_for_backward(unit, over)
        return unit

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        unit, over = ctx.saved_tensors
        if ctx.bounded:
            grad = grad.clamp(-_LARGEST, _LARGEST)
        return (grad - unit * (unit * grad).sum(1, keepdim=True)) * over, None


class _Epilogue(torch.autograd.Function):
    """z, and q′ if asked for, from y; sums over rows read what is rounded as y is."""

    @staticmethod
    def forward(
        ctx: Any, y: Tensor, r: Tensor | None, shift: Tensor | None, leaks: Tensor | None, give_q: bool, *names: Any
    ) -> Any:
        wide = upcast(y)
        u = wide if r is None else wide * r
        u = u if shift is None else u + upcast(shift)
        out, steep = _activation(u, leaks, *names)
        kept = (wide, r, shift, leaks, u, out, steep)
        ctx.there, ctx.dtype = [one is not None for one in kept], y.dtype
        ctx.save_for_backward(*[one for one in kept if one is not None])
        return (out.to(y.dtype), out.square().sum(1, keepdim=True)) if give_q else out.to(y.dtype)

    @staticmethod
    def backward(ctx: Any, dz: Tensor, dq: Tensor | None = None) -> tuple[Any, ...]:
        saved = iter(ctx.saved_tensors)
        kept: list[Any] = [next(saved) if one else None for one in ctx.there]
        y, r, shift, leaks, u, out, steep = kept
        whole = dz if dq is None else dz + 2.0 * dq * out
        du = (whole if steep is None else whole * steep).to(ctx.dtype)
        dshift = dleaks = dr = None
        if leaks is not None:
            dleaks = torch.where(u <= 0.0, whole * u, 0.0).sum(0).to(leaks.dtype)
        if shift is not None:
            dshift = du.sum(0, dtype=torch.float32).to(shift.dtype)
        if r is not None:
            dr = (du * y).sum(1, keepdim=True)
        dy = du if r is None else (du * r).to(ctx.dtype)
        return dy, dr, dshift, dleaks, None, None, None


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
