"""The built-in g as in-place steps, each with its inverse: what the fused operator runs on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..angular import angular

K = Tensor | float


class Back(NamedTuple):
    """What a backward step finds: c, its gradient as a tensor and a number, and the gradient of k if asked for."""

    c: Tensor
    through: Tensor
    factor: float
    k: Tensor | None = None


class ClosedForm(NamedTuple):
    """g in three pieces.

    Attributes:
        plain: g(c, k) by differentiable operations.
        apply_: c ← g(c) in place.
        pull_back: (g(c), gradient of g, k, whether the gradient of k is needed) → :class:`Back`.
    """

    plain: Callable[[Tensor, K], Tensor]
    apply_: Callable[[Tensor, K], Tensor]
    pull_back: Callable[[Tensor, Tensor, K, bool], Back]


def form_of(rule: Any) -> Any:
    """What a g or h that is a built-in one says of itself, its ``closed_form()``; None for any other."""
    describe = getattr(rule, "closed_form", None)
    return None if describe is None else describe()


def _cosine_back(value: Tensor, grad: Tensor, k: K, need_k: bool) -> Back:
    return Back(value, grad, 1.0)


def _linear(c: Tensor, k: K) -> Tensor:
    return c.clamp_(-1, 1).asin_().mul_(2 / math.pi)


def _linear_back(value: Tensor, grad: Tensor, k: K, need_k: bool) -> Back:
    c = _sine(value, math.pi / 2)
    return Back(c, _asin_slope(c).mul_(grad), 2 / math.pi)


def _square(c: Tensor, k: K) -> Tensor:
    return c.mul_(c.abs())


def _square_back(value: Tensor, grad: Tensor, k: K, need_k: bool) -> Back:
    root = value.abs().sqrt_()
    return Back(torch.copysign(root, value), root.mul_(grad), 2.0)


def _sigmoid(c: Tensor, k: K) -> Tensor:
    """tanh(u) = 2σ(2u) − 1: the logistic is the faster function, unless it is so flat that the 1 takes its digits."""
    top = _top(k)
    c.clamp_(-1, 1).asin_()
    if _is_flat(k):
        return c.mul_(1 / (2 * k)).tanh_().mul_(1 / top)
    c.mul_(1 / k).sigmoid_()
    if isinstance(top, Tensor):
        return c.sub_(0.5).mul_(2 / top)
    return torch.sub(c.new_full((), -1 / top), c, alpha=-2 / top, out=c)  # filled there: a copy stops a device


def _sigmoid_back(value: Tensor, grad: Tensor, k: K, need_k: bool) -> Back:
    """From asin c = k·log(p/q), with p = (1+t)/2, q = (1−t)/2 and t = tanh(asin(c)/2k) = g·T, T = tanh(π/4k)."""
    if _is_flat(k):
        return _flat_back(value, grad, k, need_k)
    p, q = _logistic(value, k)
    through: Tensor = torch.ops.aten.sigmoid_backward(grad, p)  # grad·pq, and 4pq = 1 − t²
    log = p.div_(q).log_()
    k_grad = None
    if not isinstance(k, Tensor):
        c = _sine(log, k)
    else:
        if need_k:
            k_grad = _k_gradient(_sum(value, grad, k, q), _sum(through, log, k, q), k)
        c = _sine(log.mul_(k), 1.0)
    through.mul_(_asin_slope(c, out=p))
    factor = 2 / (k * _top(k))
    return Back(c, through.mul_(factor), 1.0, k_grad) if isinstance(factor, Tensor) else Back(c, through, factor)


def _flat_back(value: Tensor, grad: Tensor, k: K, need_k: bool) -> Back:
    """The same by asin c = 2k·atanh t, which keeps the digits of a small t."""
    t = value * (_top(k) * (1 - torch.finfo(value.dtype).eps))  # as in _logistic: a steep g rounds to 1
    through: Tensor = torch.ops.aten.tanh_backward(grad, t)
    half_log = t.atanh()
    k_grad = None
    if need_k and isinstance(k, Tensor):
        steep = _k_gradient(_sum(value, grad, k), _sum(through, half_log, k) / 2, k)
        series_reaches = k > (_FLAT if value.dtype == torch.float32 else 25 * _FLAT)
        k_grad = torch.where(series_reaches, _flat_k_gradient(value, grad, t, k), steep)
    c = _sine(half_log.mul_(2 * k), 1.0)
    through.mul_(_asin_slope(c, out=t))
    factor = 1 / (2 * k * _top(k))
    return Back(c, through.mul_(factor), 1.0, k_grad) if isinstance(factor, Tensor) else Back(c, through, factor)


def _k_gradient(along: Tensor, curved: Tensor, k: Tensor) -> Tensor:
    """∂g/∂k = [t(1−T²)π/4 − (1−t²)·T·asin(c)/2] / (k²T²), from Σ grad·g and Σ grad·pq·log(p/q)."""
    top = _top(k)
    square = (k * k * top).clamp_min(torch.finfo(along.dtype).tiny)  # of a tiny k it is 0, and so is 1 − T²
    return along * ((1 - top * top) * (math.pi / 4) / square) - curved * (2 / (k * top))


def _flat_k_gradient(value: Tensor, grad: Tensor, t: Tensor, k: Tensor) -> Tensor:
    """The same as g·(S(t²) − S(T²))/k with S(x) = Σ 2xʲ/(4j²−1): nothing large cancels for a large k."""
    top = torch.as_tensor(_top(k))
    return _sum(value * grad, _series(t * t) - _series(top * top), k) / k


def _series(x: Tensor) -> Tensor:
    total = torch.zeros_like(x)
    for j in range(8, 0, -1):
        total = (total + 2 / (4 * j * j - 1)) * x
    return total


def _sum(a: Tensor, b: Tensor, like: Tensor, scratch: Tensor | None = None) -> Tensor:
    """Σ a·b over all that a k is shared by."""
    return torch.mul(a, b, out=scratch).sum_to_size(like.shape)


_FLAT = 2.0


def _is_flat(k: K) -> bool:
    """Whether 1/2 would swallow digits of the logistic; where finding out stops a device, as if it did."""
    if not isinstance(k, Tensor):
        return k > _FLAT
    return k.device.type != "cpu" or bool((k > _FLAT).any())


def _logistic(value: Tensor, k: K) -> tuple[Tensor, Tensor]:
    """p = σ(asin(c)/k) and 1−p from g, each raised by half an eps: a steep g rounds to 0 and 1."""
    half = torch.finfo(value.dtype).eps / 2
    top = _top(k)
    p = (
        (value * (top / 2)).add_(0.5 + half)
        if isinstance(top, Tensor)
        else torch.rsub(value, 0.5 + half, alpha=-top / 2)
    )
    return p, (1 + 2 * half) - p


def _top(k: K) -> K:
    return torch.tanh(math.pi / (4 * k)) if isinstance(k, Tensor) else math.tanh(math.pi / (4 * k))


def _sine(x: Tensor, scale: float) -> Tensor:
    """sin(scale·x) for |scale·x| ≤ π/2, in a new tensor.

    In float32 on a CPU a polynomial (error 2e-11 before rounding) takes two thirds of the time of torch's sine,
    which reduces its argument first.
    """
    if x.dtype != torch.float32 or x.device.type != "cpu":
        return (x * scale).sin_()
    squares = x * x
    *inner, last = (c * scale ** (2 * i + 1) for i, c in enumerate(_SINE))
    polynomial = torch.rsub(squares, inner[-1], alpha=-last)
    for c in reversed(inner[:-1]):
        torch.addcmul(torch.tensor(c, dtype=x.dtype, device=x.device), polynomial, squares, out=polynomial)
    return polynomial.mul_(x)


# sin a = a·(1 + c₁a² + c₂a⁴ + ...): least maximal error on [−π/2, π/2]
_SINE = (
    1.0,
    -0.16666666606477265,
    0.008333330496049883,
    -0.00019840804084569853,
    2.7522621045537e-06,
    -2.38467309215e-08,
)


def _asin_slope(c: Tensor, out: Tensor | None = None) -> Tensor:
    """1/√(1−c²), 1/√eps at ±1 (see :func:`angle`), in ``out`` if given."""
    one = torch.ones((), dtype=c.dtype, device=c.device)
    return torch.addcmul(one, c, c, value=-1, out=out).clamp_(min=torch.finfo(c.dtype).eps).rsqrt_()


CLOSED_FORMS = {
    "cosine": ClosedForm(lambda c, k: c, lambda c, k: c, _cosine_back),
    "linear": ClosedForm(lambda c, k: angular(c, "linear"), _linear, _linear_back),
    "sigmoid": ClosedForm(lambda c, k: angular(c, "sigmoid", k), _sigmoid, _sigmoid_back),
    "square_cosine": ClosedForm(lambda c, k: angular(c, "square_cosine"), _square, _square_back),
}
