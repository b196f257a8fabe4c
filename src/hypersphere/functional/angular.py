"""Angular functions g (paper eq. 2-4, thesis 4.11-4.14), from the cosine and from an angle.

All are odd in c = cos θ and run from 1 at θ = 0 to −1 at θ = π. Computed from the angle they continue past π,
as margins g(mθ) need: the linear and the sigmoid g keep decreasing there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .._core import registries
from .._core.checks import check_positive
from .._core.errors import check_floating
from .._core.modes import is_plain_eager
from .._core.sphere import arcsin, upcast

ANGULAR = ("cosine", "linear", "sigmoid", "square_cosine")
"""The kinds whose formulas are here; any other is asked for its own."""


class AngularForm(NamedTuple):
    """A built-in g in numbers and tensors: what its ``closed_form`` says, and a g itself."""

    kind: str
    k: float | Tensor = 0.3

    def from_cos(self, c: Tensor) -> Tensor:
        return angular(c, self.kind, self.k)

    def closed_form(self) -> AngularForm:
        return self


def angular(cos: Tensor, kind: str, k: float | Tensor = 0.3) -> Tensor:
    """Compute g(θ) from c = cos θ (paper eq. 2-4, thesis 4.11-4.14), with finite gradients at c = ±1.

    | kind                | g                                        |
    | ------------------- | ---------------------------------------- |
    | ``"cosine"``        | c                                        |
    | ``"linear"``        | (2/π)·asin c                             |
    | ``"sigmoid"``       | tanh(asin(c)/(2k)) / tanh(π/(4k)), k > 0 |
    | ``"square_cosine"`` | sign(c)·c²                               |

    Any other ``kind`` is the name of a registered g.

    Args:
        cos: cosines c in [−1, 1], of any shape.
        kind: the formula: one of the names above, or the name of a registered g.
        k: curvature of the sigmoid, > 0; smaller is steeper. Other kinds ignore it. A tensor broadcasts against
            ``cos``. 0.3 is the paper's fixed value.

    Returns:
        g(θ), with a finite gradient at c = ±1 (see :func:`angle`).

    Shape:
        - Input: (*), any shape.
        - Output: (*), the same shape.

    Raises:
        ValueError: If no g has that name.

    Example:
        >>> hs.functional.angular(torch.tensor([0.0, 0.5, 1.0]), "linear")
        tensor([0.0000, 0.3333, 1.0000])
    """
    check_floating("cos", cos)
    if kind not in ANGULAR:
        return registries.ANGULAR.find(kind, "kind")().from_cos(cos)
    c = upcast(cos)
    if kind == "square_cosine":
        c = c * c.abs()
    elif kind != "cosine":
        c = _of_deviation(arcsin(c), kind, k)
    return c.to(cos.dtype)


def angular_from_angle(theta: Tensor, kind: str, k: float | Tensor = 0.3) -> Tensor:
    """Compute g(θ) from the angle itself, for any real θ (paper eq. 2-4); :func:`angular` lists the kinds.

    cos θ and cos θ·|cos θ| are periodic; 1 − 2θ/π and the sigmoid decrease for all θ.

    Args:
        theta: angles in radians; those beyond π occur in margin losses.
        kind: the formula, a name of :func:`angular`.
        k: curvature of the sigmoid, > 0; other kinds ignore it.

    Returns:
        g(θ), in the shape of ``theta``.

    Shape:
        - Input: (*), any shape.
        - Output: (*), the same shape.

    Raises:
        TypeError: If ``theta`` is not a floating-point tensor.
        ValueError: If ``kind`` is unknown or ``k`` is not positive.

    Example:
        >>> hs.functional.angular_from_angle(torch.tensor([0.0, 2 * torch.pi]), "linear")
        tensor([ 1., -3.])
    """
    check_floating("theta", theta)
    if kind not in ANGULAR:
        return registries.ANGULAR.find(kind, "kind")().from_angle(theta)
    t = upcast(theta)
    if kind == "cosine":
        g = t.cos()
    elif kind == "square_cosine":
        g = t.cos() * t.cos().abs()
    else:
        g = _of_deviation(math.pi / 2 - t, kind, k)
    return g.to(theta.dtype)


def _of_deviation(a: Tensor, kind: str, k: float | Tensor) -> Tensor:
    """Linear and sigmoid g of a = π/2 − θ (= asin c on [0, π])."""
    if kind == "linear":
        return a * (2 / math.pi)
    if not isinstance(k, Tensor):
        check_positive("k", k)
        return torch.tanh(a / (2 * k)) / math.tanh(math.pi / (4 * k))
    if k.device.type == "cpu" and is_plain_eager(k) and bool((k <= 0).any()):
        raise ValueError(f"k holds {float(k.detach().min())!r}: every curvature must be > 0")
    # tanh(uU)/tanh(U) as u·[tanh(uU)/uU]/[tanh(U)/U]: the gradient for a large k would otherwise cancel
    steep = k < torch.finfo(a.dtype).tiny ** 0.25
    u, top = a * (2 / math.pi), _end(k, steep, torch.finfo(a.dtype).tiny)
    z = u * top
    ratio = _tanh_ratio(z) / _tanh_ratio(torch.where(steep, 1.0, top))
    return torch.where(steep, torch.tanh(z), u * ratio)  # tanh(U) = 1 where it is steep


def _end(k: Tensor, steep: Tensor, tiny: float) -> Tensor:
    """U = π/4k. Where it is steep, its derivative is taken as that of U·exp(−log k): that of 1/k, 1/k², overflows."""
    small = torch.where(steep, k, 1.0).clamp_min(tiny)
    log = small.log()
    return math.pi / (4 * torch.where(steep, small.detach(), k)) * torch.exp(log.detach() - log)


def _tanh_ratio(z: Tensor) -> Tensor:
    """tanh(z)/z, by its series where |z| is so small that the derivative of the quotient would cancel."""
    small = z.abs() < torch.finfo(z.dtype).eps ** 0.125
    x, total = torch.where(small, z, 0.0).square(), torch.zeros_like(z)
    for coefficient in (-1382 / 155925, 62 / 2835, -17 / 315, 2 / 15, -1 / 3):
        total = (total + coefficient) * x
    large = torch.where(small, 1.0, z)
    return torch.where(small, 1 + total, torch.tanh(large) / large)
