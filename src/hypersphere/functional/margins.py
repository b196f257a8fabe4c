"""Margins on the target's angle: ψ (thesis 2.6) and the additive and clipped ones, from the cosine."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._core.checks import check_choice, is_number
from .._core.errors import check_floating
from .._core.sphere import angle, upcast


def psi(cos: Tensor, margin: float | Tensor, kind: str = "cosine") -> Tensor:
    """ψ(θ) = (−1)^k·cos(mθ) − 2k on [kπ/m, (k+1)π/m] (thesis 2.6): decreasing from 1 to 1 − 2m for an integer m.

    For a real m it decreases from 1 to (−1)^K·cos(mπ) − 2K with K = ⌈m⌉ − 1; its last piece is cut at π. For an integer
    ``margin`` it is the multiple-angle polynomial of c = cos θ (thesis 2.7), with k found by comparing c with
    cos(kπ/m). This needs no arccos and has the exact derivative everywhere, also at θ = 0, π/m and π. A real margin
    uses :func:`angle`, whose gradient at c = ±1 is finite but not exact.

    Args:
        cos: cosines cos θ in [−1, 1], of any shape.
        margin: m ≥ 1, a number, or a tensor that broadcasts against ``cos`` and is computed as a real margin.
        kind: ``"cosine"``, or ``"square_cosine"`` to continue cos²(mθ) in the same way: (−1)^k·cos(mθ)·|cos(mθ)| − 2k.

    Returns:
        ψ(θ), the logit of the correct class divided by the norms.

    Shape:
        - cos: (*), any shape.
        - Output: (*), the same shape.

    Raises:
        ValueError: If ``margin`` is a number below 1 or not finite, or ``kind`` is unknown.
        TypeError: If ``cos`` is not a floating-point tensor.

    Example:
        >>> hs.functional.psi(torch.tensor([1.0, 0.0, -1.0]), 4)
        tensor([ 1., -3., -7.])
    """
    check_floating("cos", cos)
    m = margin if isinstance(margin, Tensor) else check_margin(margin)
    check_choice("kind", kind, ("cosine", "square_cosine"))
    c = upcast(cos)
    if isinstance(m, Tensor):
        theta = m * angle(c)
        k = torch.minimum((theta.detach() / math.pi).floor(), m.detach().ceil() - 1).clamp_min(0)
        value = theta.cos()
    elif m.is_integer():
        bounds = [math.cos(j * math.pi / m) for j in range(1, int(m))]
        k = sum(((c <= bound).to(c.dtype) for bound in bounds), torch.zeros_like(c))
        value = _chebyshev(c, int(m))
    else:
        theta = m * angle(c)
        k = (theta.detach() / math.pi).floor().clamp(0, math.ceil(m) - 1)
        value = theta.cos()
    if kind == "square_cosine":
        value = value * value.abs()
    sign = 1 - 2 * (k % 2)
    return (sign * value - 2 * k).to(cos.dtype)


def multiple_angle(cos: Tensor, margin: float | Tensor) -> Tensor:
    """Compute cos(mθ) from cos θ: by the polynomial T_m for an integer m (thesis 2.7), else by :func:`angle`.

    Args:
        cos: cosines c in [−1, 1], of any shape.
        margin: m ≥ 1, a number or a tensor that broadcasts against ``cos``.

    Returns:
        cos(mθ), in [−1, 1].

    Shape:
        - cos: (*), any shape.
        - Output: (*), the same shape.

    Raises:
        TypeError: If ``cos`` is not a floating-point tensor.

    Example:
        >>> hs.functional.multiple_angle(torch.tensor([1.0, 0.5]), 2)
        tensor([ 1.0000, -0.5000])
    """
    check_floating("cos", cos)
    c = upcast(cos)
    whole = not isinstance(margin, Tensor) and float(margin).is_integer()
    value = _chebyshev(c, int(margin)) if whole else (margin * angle(c)).cos()
    return value.to(cos.dtype)


def additive_angle(cos: Tensor, margin: float | Tensor) -> Tensor:
    """cos(θ + m) up to θ = π − m, from there cos θ − m·sin m: decreasing on all of [0, π] (ArcFace).

    At θ = π − m the published continuation drops from −1 to −cos m − m·sin m. ``margin`` may be a tensor that
    broadcasts against ``cos``; where it is negative, θ + m does not reach π.
    """
    check_floating("cos", cos)
    c = upcast(cos)
    cos_m, sin_m = (margin.cos(), margin.sin()) if isinstance(margin, Tensor) else (math.cos(margin), math.sin(margin))
    shifted = (angle(c) + margin).cos()
    inside = c >= -cos_m
    if isinstance(margin, Tensor) or margin < 0:
        inside = inside | (margin < 0)
    return torch.where(inside, shifted, c - margin * sin_m).to(cos.dtype)


def clipped_multiple(cos: Tensor, margin: float | Tensor) -> Tensor:
    """cos(min(mθ, π)) (SphereFace-R v1): constant −1, with gradient 0, from θ = π/m on; m may be a tensor."""
    check_floating("cos", cos)
    c = upcast(cos)
    end = torch.cos(math.pi / margin) if isinstance(margin, Tensor) else math.cos(math.pi / margin)
    value = torch.where(c > end, multiple_angle(c, margin), -torch.ones_like(c))
    return value.to(cos.dtype)


def check_margin(margin: float) -> float:
    """Return a multiplicative margin if it is a finite number of at least 1."""
    if not is_number(margin):
        raise TypeError(f"margin={margin!r} must be a number ≥ 1, not {type(margin).__name__}")
    if not 1 <= margin < math.inf:  # math.isfinite cannot be traced
        raise ValueError(
            f"margin={margin!r} multiplies the angle: it must be finite and at least 1 (1 means no margin)"
        )
    return float(margin)


def _chebyshev(c: Tensor, m: int) -> Tensor:
    """T_m(cos θ) = cos(mθ) by its recurrence T_{n+1} = 2c·T_n − T_{n−1}, for m ≥ 1."""
    before, value = torch.ones_like(c), c
    for _ in range(m - 1):
        before, value = value, 2 * c * value - before
    return value
