"""The bedrock: norms, unit vectors and angles that are right at every scale and at cos = ±1.

Half precision is computed in float32 and rounded once at the end; float32 and float64 as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .errors import check_floating
from .modes import is_plain_eager


def angle(cos: Tensor) -> Tensor:
    """Compute θ = arccos c in [0, π], with a finite gradient everywhere.

    Values of ``cos`` outside [−1, 1] (rounding) count as ±1. The derivative −1/√(1−c²) is unbounded at ±1; there it is
    taken as −1/√eps of the computing dtype, the largest value it has next to ±1: 2896 in float32 (and half precision),
    6.7e7 in float64.

    Args:
        cos: cosines of angles, of any shape; values outside [−1, 1] by rounding are clamped.

    Returns:
        Angles in radians; float32 for half-precision inputs.

    Shape:
        - Input: (*), any shape.
        - Output: (*), the same shape.

    Raises:
        TypeError: If ``cos`` is not a floating-point tensor.

    Example:
        >>> hs.functional.angle(torch.tensor([1.0, 0.0, -1.0]))
        tensor([0.0000, 1.5708, 3.1416])
    """
    check_floating("cos", cos)
    return _extended(torch.acos, upcast(cos), -1.0).to(cos.dtype)


def arcsin(cos: Tensor) -> Tensor:
    """Compute arcsin c in [−π/2, π/2]; domain, precision and gradient as for :func:`angle`.

    Args:
        cos: cosines, or any numbers in [−1, 1].

    Returns:
        Angles in radians; float32 for half-precision inputs.

    Shape:
        - Input: (*), any shape.
        - Output: (*), the same shape.

    Raises:
        TypeError: If ``cos`` is not a floating-point tensor.

    Example:
        >>> hs.functional.arcsin(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 1.5708])
    """
    check_floating("cos", cos)
    return _extended(torch.asin, upcast(cos), 1.0).to(cos.dtype)


def norm(w: Tensor, dim: int | tuple[int, ...] = -1, keepdim: bool = False) -> Tensor:
    """‖w‖ over ``dim``, without overflow or underflow at any scale, and with gradient 0 for a zero vector.

    Args:
        w: vectors along ``dim``, of any length; zero vectors are allowed.
        dim: the dimension or dimensions that hold a vector's entries.
        keepdim: keep those dimensions with size 1.

    Returns:
        Euclidean norms, in the dtype of ``w``.

    Shape:
        - w: (*), any shape.
        - Output: the shape of ``w`` without ``dim``.

    Raises:
        TypeError: If ``w`` is not a floating-point tensor.

    Example:
        >>> hs.functional.norm(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([5., 0.])
    """
    check_floating("w", w)
    _, length, scale = _unit(upcast(w), dim)
    length = length * scale
    return (length if keepdim else length.squeeze(dim)).to(w.dtype)


def unit(w: Tensor, dim: int | tuple[int, ...] = -1) -> Tensor:
    """w/‖w‖ over ``dim``, at any scale; a zero vector stays zero, with gradient 0.

    Args:
        w: vectors along ``dim``, of any length; zero vectors are allowed.
        dim: the dimension or dimensions that hold a vector's entries.

    Returns:
        Vectors of length 1.

    Shape:
        - w: (*), any shape.
        - Output: (*), the same shape.

    Raises:
        TypeError: If ``w`` is not a floating-point tensor.

    Example:
        >>> hs.functional.unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    check_floating("w", w)
    wide = upcast(w)
    if torch.is_grad_enabled() and wide.requires_grad and is_plain_eager(wide):
        return _Unit.apply(wide, dim).to(w.dtype)
    return _unit(wide, dim)[0].to(w.dtype)


def safe_reciprocal(n: Tensor) -> Tensor:
    """1/n of n ≥ 0, and 0 with gradient 0 where n is 0 (or too small to have a reciprocal).

    No 1/n² stands in the gradient by itself: it would overflow long before the gradient does.
    """
    if is_plain_eager(n):
        return _Reciprocal.apply(n) if torch.is_grad_enabled() and n.requires_grad else _reciprocal(n)
    zero = n < torch.finfo(n.dtype).tiny
    safe = torch.where(zero, 1.0, n)
    c = safe.detach().reciprocal()
    return torch.where(zero, 0.0, c / (safe * c))


def upcast(x: Tensor) -> Tensor:
    """Half precision to float32; anything else as it is."""
    return x.to(compute_dtype(x.dtype))


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that norms and angles of ``dtype`` are computed in."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def _unit(w: Tensor, dim: int | tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """w/‖w‖, and ‖w‖ as a product: the norm of w over its largest entry, and that entry (a constant)."""
    if w.numel() == 0:
        length = w.sum(dim, keepdim=True)
        return w, length, torch.ones_like(length)
    largest = entry_size(w.detach(), dim)
    zero = largest == 0
    scale = torch.where(zero, 1.0, largest)
    scaled = w / scale
    length = sqrt((scaled * scaled).sum(dim, keepdim=True))
    return torch.where(zero, 0.0, scaled / torch.where(zero, 1.0, length)), length, scale


def entry_size(w: Tensor, dim: int | tuple[int, ...]) -> Tensor:
    """max|w| over ``dim``, which stays with size 1; of a DTensor Σ|w|, since a process may hold no entry of it."""
    sizes = w.abs()
    return sizes.sum(dim, keepdim=True) if hasattr(w, "full_tensor") else sizes.amax(dim, keepdim=True)


class _Unit(torch.autograd.Function):
    """ŵ with its gradient (g − ŵ⟨ŵ, g⟩)/‖w‖ in closed form: fewer and smaller things to keep."""

    @staticmethod
    def forward(ctx: Any, w: Tensor, dim: int | tuple[int, ...]) -> Tensor:
        direction, length, scale = _unit(w, dim)
        ctx.dim = dim
        ctx.save_for_backward(w, direction, safe_reciprocal(length) / scale)
        return direction

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        w, direction, inverse = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative will be asked for: differentiate the definition
            with torch.enable_grad():
                return torch.autograd.grad(_unit(w, ctx.dim)[0], w, grad, create_graph=True)[0], None
        along = (direction * grad).sum(ctx.dim, keepdim=True)
        return torch.addcmul(grad, direction, along, value=-1).mul_(inverse), None


def _reciprocal(n: Tensor) -> Tensor:
    """An infinite 1/n as 0: on a CPU a tenth of the time that a mask takes."""
    return n.reciprocal().nan_to_num_(nan=math.nan, posinf=0.0, neginf=0.0)


class _Reciprocal(torch.autograd.Function):
    """:func:`safe_reciprocal` with its gradient −(g·r)·r."""

    @staticmethod
    def forward(ctx: Any, n: Tensor) -> Tensor:
        r = _reciprocal(n)
        ctx.save_for_backward(r)
        return r

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (r,) = ctx.saved_tensors
        return (grad * r) * -r


def sqrt(squares: Tensor) -> Tensor:
    """√, with gradient 0 (not inf) at 0."""
    zero = squares == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squares).sqrt())


def _extended(inverse: Callable[[Tensor], Tensor], c: Tensor, sign: float) -> Tensor:
    """arccos or arcsin on (−1, 1); at and beyond ±1 its end value, with slope ``sign``/√eps.

    Inside, the largest slope that a float reaches is 1/√eps too, so nothing jumps. Plain
    operations only: reverse and forward mode, vmap and compilers take it as it is.
    """
    inside = c.abs() < 1
    end = inverse(c.detach().clamp(-1, 1)) + (sign * torch.finfo(c.dtype).eps ** -0.5) * (c - c.detach())
    return torch.where(inside, inverse(torch.where(inside, c, 0.0)), end)
