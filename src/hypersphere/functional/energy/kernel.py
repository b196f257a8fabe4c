"""The energy of one pair of neurons as a function of the cosine between them, and its derivatives.

Euclidean (thesis 5.1, D.10): φ(c) = f(q), q = ‖β_i ŵ_i − β_j ŵ_j‖² = b + 2|a|(1 ∓ c), with a = β_i β_j, whose sign
is the one in ∓, and b = (|β_i|−|β_j|)²; f(q) = q^(−s/2), or −½·log q for s = 0. Distances are compared in units of
m = ½(β_i²+β_j²), and slopes are multiples of f, so that nothing overflows which the energy itself does not.

Angular (thesis 5.5): φ(c) = θ^(−s), or −log θ, θ = arccos c. In half space −ŵ_j is a neuron too: φ(c) + φ(−c).

The precision guard: 1−c carries the rounding error of c, so that a squared distance below a few eps
is noise. Below ``floor`` (on q, relative to ½(β_i²+β_j²), and on θ²) φ continues along its tangent:
finite, monotone, continuously differentiable, still pushing apart.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from ..._core.sphere import angle

FUSED_POWER = 12.0
"""Weights and larger powers overflow inside the kernels where the energy itself need not."""

_Number = TypeVar("_Number", float, Tensor)


class Kernel(NamedTuple):
    """The energy of a pair as numbers.

    Attributes:
        s: power of the distance.
        angular: take angles instead of Euclidean distances.
        half_space: count every neuron with its opposite.
        floor: smallest squared distance that counts.
    """

    s: float
    angular: bool
    half_space: bool
    floor: float

    @staticmethod
    def build(s: float, distance: str, half_space: bool, floor: float | None, dtype: torch.dtype) -> Kernel:
        floor = default_floor(s, dtype) if floor is None else _checked_floor(float(floor), s, dtype)
        return Kernel(s, distance == "angular", half_space, floor)


def default_floor(s: float, dtype: torch.dtype) -> float:
    """16·eps, and for large s as much more as keeps the energy and its two derivatives finite."""
    limits = torch.finfo(dtype)
    return max(16 * limits.eps, limits.max ** (-1.5 / (s + 2)))


def _checked_floor(floor: float, s: float, dtype: torch.dtype) -> float:
    """Refuse a floor where the energy overflows, or that no distance reaches: q is at most 4, and θ² at most π²."""
    smallest = torch.finfo(dtype).max ** (-1.8 / (s + 4))  # floor^(−s/2 − 2) is the second derivative, up to a factor
    if not smallest <= floor <= 16:
        raise ValueError(
            f"floor={floor!r} must be between {smallest:.3g}, where the energy of s={s:g} overflows {dtype}, and 16, "
            "which no squared distance or angle exceeds"
        )
    return floor


def pair_energy(c: Tensor, kernel: Kernel, a: Tensor | None = None, b: Tensor | None = None) -> Tensor:
    """φ(c) from plain differentiable operations."""
    one_sign = _angular if kernel.angular else _euclidean
    near = one_sign(c, kernel, a, b)
    return near + one_sign(-c, kernel, a, b) if kernel.half_space else near


def opposite(kernel: Kernel, squares: Tensor) -> Tensor:
    """The energy of ŵ_i and its own virtual neuron −ŵ_i: distance 2|β_i|, angle π; ``squares`` are β_i²."""
    if kernel.angular:
        return torch.full_like(squares, -math.log(math.pi) if kernel.s == 0 else math.pi**-kernel.s)
    return _power(4 * squares, kernel.s / 2)


def derivatives(
    c: Tensor, kernel: Kernel, a: Tensor | None = None, b: Tensor | None = None, *, second: bool = False
) -> tuple[Tensor, Tensor, Tensor | None]:
    """φ, dφ/dc and, if ``second``, d²φ/dc², in closed form."""
    one_sign = _angular_derivatives if kernel.angular else _euclidean_derivatives
    value, slope, curvature = one_sign(c, kernel, a, b, second)
    if kernel.half_space:
        mirrored = one_sign(-c, kernel, a, b, second)
        value, slope = value + mirrored[0], slope - mirrored[1]
        curvature = None if curvature is None or mirrored[2] is None else curvature + mirrored[2]
    return value, slope, curvature


def _euclidean(c: Tensor, kernel: Kernel, a: Tensor | None, b: Tensor | None) -> Tensor:
    half, floor = kernel.s / 2, kernel.floor
    if a is None or b is None:
        q = 2 - 2 * c
        return _power(q.clamp(min=floor), half) + _power_slope(floor, half) * _deficit(q, floor)
    q, unit = _relative_square(c, a, b), a.abs() + b / 2
    far, lack = _power(q.clamp(min=floor) * unit, half), _deficit(q, floor) / floor
    return far - lack / 2 if half == 0 else far * (1 - half * lack)


def _euclidean_derivatives(
    c: Tensor, kernel: Kernel, a: Tensor | None, b: Tensor | None, second: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    half = kernel.s / 2
    if a is not None and b is not None:
        return _weighted_derivatives(c, kernel, a, b, second)
    q = 2 - 2 * c
    floor = torch.full_like(q, kernel.floor)
    far = torch.maximum(q, floor)
    value = _power(far, half) + _power_slope(floor, half) * (q - far)
    slope = _power_slope(far, half)
    curvature = torch.where(q > floor, -(half + 1) * slope / far, 0.0) if second else None
    return value, -2 * slope, None if curvature is None else 4 * curvature


def _weighted_derivatives(
    c: Tensor, kernel: Kernel, a: Tensor, b: Tensor, second: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """With r = q/m: f = (r·m)^(−s/2), and d log f/dc = −s/2·(dr/dc)/r, so that nothing but f itself can overflow."""
    half, floor = kernel.s / 2, kernel.floor
    q, unit = _relative_square(c, a, b), a.abs() + b / 2
    far, lack = q.clamp(min=floor), _deficit(q, floor) / floor
    ratio = -2 * (a / unit) / far  # dr/dc over r
    value = _power(far * unit, half)
    slope = -0.5 * ratio if half == 0 else -half * value * ratio
    curvature = None
    if second:
        curvature = torch.where(q > floor, -(half + 1) * slope * ratio, 0.0)
    return value - lack / 2 if half == 0 else value * (1 - half * lack), slope, curvature


def _relative_square(c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """q/m of weighted neurons; near 0 only 1 − c or 1 + c carries a rounding error."""
    size = a.abs()
    return (b + 2 * size * torch.where(a < 0, 1 + c, 1 - c)) / (size + b / 2)


def _angular(c: Tensor, kernel: Kernel, a: Tensor | None, b: Tensor | None) -> Tensor:
    theta, floor = angle(c), math.sqrt(kernel.floor)
    far = theta.clamp(min=floor)
    return _power(far, kernel.s, log=1.0) + _power_slope(floor, kernel.s, log=1.0) * _deficit(theta, floor)


def _angular_derivatives(
    c: Tensor, kernel: Kernel, a: Tensor | None, b: Tensor | None, second: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    theta, floor = angle(c), math.sqrt(kernel.floor)
    far = theta.clamp(min=floor)
    end = _power_slope(floor, kernel.s, log=1.0)
    value = _power(far, kernel.s, log=1.0) + end * (theta - far)
    slope = _power_slope(far, kernel.s, log=1.0)
    inside = c.abs() < 1
    sine = torch.where(inside, (1 - c * c).clamp(min=torch.finfo(c.dtype).tiny), 1.0).sqrt()
    dtheta = torch.where(inside, -1 / sine, -(torch.finfo(c.dtype).eps ** -0.5))  # as in `angle`
    if not second:
        return value, slope * dtheta, None
    curvature = torch.where(theta > floor, -(kernel.s + 1) * slope / far, 0.0)
    return value, slope * dtheta, curvature * dtheta**2 + torch.where(inside, -c / sine**3, 0.0) * slope


def _deficit(x: Tensor, floor: float | Tensor) -> Tensor:
    """min(x − floor, 0). Not x − max(x, floor), whose two gradients would cancel only up to rounding."""
    return torch.where(x < floor, x - floor, 0.0)


def _power(x: Tensor, exponent: float, log: float = 0.5) -> Tensor:
    """x^(−exponent); for exponent 0 ``log``·log(1/x). The common exponents need no pow."""
    if exponent == 0:
        return -log * x.log()
    if exponent == 0.5:
        return x.rsqrt()
    if exponent == 1:
        return x.reciprocal()
    return x**-exponent


def _power_slope(x: _Number, exponent: float, log: float = 0.5) -> _Number:
    """The derivative of :func:`_power`."""
    if exponent == 0:
        return -log / x
    if exponent == 1:
        return -1 / (x * x)
    return -exponent * x ** (-exponent - 1)
