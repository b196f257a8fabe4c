"""The built-in g as in-place steps, each with its inverse: what the fused operator runs on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from ._angular import angular

__all__ = ["CLOSED_FORMS", "ClosedForm"]

K = Tensor | float


class ClosedForm(NamedTuple):
    """g in three pieces.

    Attributes:
        plain: g(c, k) by differentiable operations.
        apply_: c ← g(c) in place.
        pull_back: (g(c), gradient of g) → c, and the gradient of c in two factors, a tensor and a number.
        k_gradient: (g(c), gradient of g) → gradient of k.
    """

    plain: Callable[[Tensor, K], Tensor]
    apply_: Callable[[Tensor, K], Tensor]
    pull_back: Callable[[Tensor, Tensor, K], tuple[Tensor, Tensor, float]]
    k_gradient: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda value, grad, k: torch.zeros_like(k)


def _cosine_back(value: Tensor, grad: Tensor, k: K) -> tuple[Tensor, Tensor, float]:
    return value, grad, 1.0


def _linear(c: Tensor, k: K) -> Tensor:
    return c.clamp_(-1, 1).asin_().mul_(2 / math.pi)


def _linear_back(value: Tensor, grad: Tensor, k: K) -> tuple[Tensor, Tensor, float]:
    c = _sine(value, math.pi / 2)
    return c, _asin_slope(c).mul_(grad), 2 / math.pi


def _square(c: Tensor, k: K) -> Tensor:
    return c.mul_(c.abs())


def _square_back(value: Tensor, grad: Tensor, k: K) -> tuple[Tensor, Tensor, float]:
    root = value.abs().sqrt_()
    return torch.copysign(root, value), root.mul_(grad), 2.0


def _sigmoid(c: Tensor, k: K) -> Tensor:
    """tanh(u) = 2σ(2u) − 1: the logistic is the faster function."""
    c.clamp_(-1, 1).asin_().mul_(1 / k).sigmoid_()
    top = _top(k)
    if isinstance(top, Tensor):
        return c.sub_(0.5).mul_(2 / top)
    return torch.sub(torch.tensor(-1 / top, dtype=c.dtype, device=c.device), c, alpha=-2 / top, out=c)


def _sigmoid_back(value: Tensor, grad: Tensor, k: K) -> tuple[Tensor, Tensor, float]:
    p, q = _logistic(value, k)
    through: Tensor = torch.ops.aten.sigmoid_backward(grad, p)  # grad·pq, and 4pq = 1 − tanh²
    c = _sine(p.div_(q).log_(), k)  # asin c = k·log(p/q)
    through.mul_(_asin_slope(c, out=p))
    factor = 2 / (k * _top(k))
    return (c, through.mul_(factor), 1.0) if isinstance(factor, Tensor) else (c, through, factor)


def _sigmoid_k(value: Tensor, grad: Tensor, k: Tensor) -> Tensor:
    """∂g/∂k with t = tanh(a/2k), T = tanh(π/4k): [t(1−T²)π/4 − (1−t²)·T·a/2] / (k²T²)."""
    top = _top(k)
    p, q = _logistic(value, k)
    curve = (p - q) * ((1 - top * top) * (math.pi / 4)) - 2 * p * q * top * k * (p / q).log_()
    return (curve * grad / (k * k * top * top)).sum_to_size(k.shape)


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


def _sine(x: Tensor, scale: K) -> Tensor:
    """sin(scale·x) for |scale·x| ≤ π/2, in a new tensor.

    In float32 on a CPU a polynomial (error 2e-11 before rounding) takes two thirds of the time of torch's sine,
    which reduces its argument first.
    """
    if x.dtype != torch.float32 or x.device.type != "cpu" or isinstance(scale, Tensor):
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
    "sigmoid": ClosedForm(lambda c, k: angular(c, "sigmoid", k), _sigmoid, _sigmoid_back, _sigmoid_k),
    "square_cosine": ClosedForm(lambda c, k: angular(c, "square_cosine"), _square, _square_back),
}
