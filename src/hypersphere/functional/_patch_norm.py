"""‖x‖ of every patch: a box filter over the per-position sum of squares (per group)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .._errors import check_count, check_floating
from ._geometry import Geometry, box
from ._modes import is_plain_eager
from ._sphere import safe_reciprocal, sqrt, upcast

__all__ = ["patch_norm", "tied_patch_norm"]


def patch_norm(
    x: Tensor,
    kernel_size: int | tuple[int, ...],
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    """Euclidean norm of the patches of x (N, C, ...) under each window position: (N, groups, ...).

    The result is float32 for half-precision inputs, whose squares would overflow, else of x's dtype.
    A zero patch has norm 0 and gradient 0. On CPU the norm is right for inputs of any finite size; on
    other devices squares must fit the dtype (norms from 1e-19 to 1e19 in float32): larger patches give
    inf, for which operators return 0.
    """
    check_floating("x", x)
    check_count("groups", groups)
    dims = len(kernel_size) if isinstance(kernel_size, tuple) else x.dim() - 2
    if dims not in (1, 2, 3) or x.dim() != dims + 2:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and kernel_size is {kernel_size!r}: pass (N, C, ...) with 1 to 3 spatial "
            f"dimensions, one for each entry of kernel_size"
        )
    if x.shape[1] % groups:
        raise ValueError(f"groups={groups} does not divide the {x.shape[1]} channels of x")
    kernel, strides, paddings, dilations = (
        v if isinstance(v, tuple) else (v,) * dims for v in (kernel_size, stride, padding, dilation)
    )
    return tied_patch_norm(x, Geometry(kernel, strides, paddings, dilations, groups))[1]


def tied_patch_norm(x: Tensor, geometry: Geometry) -> tuple[Tensor, Tensor]:
    """x itself and its patch norms.

    What is computed from both should read the x that comes back: its gradient and that of the norms
    are then added up in one pass.
    """
    if torch.is_grad_enabled() and x.requires_grad and is_plain_eager(x):
        return _TiedPatchNorm.apply(x, geometry)
    return x, _norms(x, geometry)


def _norms(x: Tensor, geometry: Geometry) -> Tensor:
    """The norms by differentiable operations, with squares kept in range on the CPU."""
    wide = upcast(x)
    positions = _grouped_sum(wide * wide, geometry.groups)
    squares = box(positions, geometry)
    if x.device.type != "cpu" or x.dtype == torch.float16 or x.numel() == 0:
        return sqrt(squares)
    if is_plain_eager(x) and _within_range(x, positions, geometry):
        return sqrt(squares) if squares.requires_grad else squares.sqrt()
    scaled, scale = _rescaled(wide)
    return sqrt(box(_grouped_sum(scaled * scaled, geometry.groups), geometry)) * scale


def _grouped_sum(x: Tensor, groups: int) -> Tensor:
    """(N, C, ...) summed over the channels of each group."""
    if groups == 1:
        return x.sum(1, keepdim=True)
    return x if groups == x.shape[1] else x.unflatten(1, (groups, -1)).sum(2)


def _within_range(x: Tensor, positions: Tensor, geometry: Geometry) -> bool:
    """Whether no sum of squares overflows, and no square of a number that is not 0 has underflowed."""
    limits = torch.finfo(positions.dtype)
    low, high = (float(bound) for bound in positions.aminmax())
    if not high * math.prod(geometry.kernel) < limits.max:
        return False
    tiny = limits.tiny / limits.eps
    return low > tiny or not bool(_grouped_sum(x.abs(), geometry.groups)[positions <= tiny].any())


def _rescaled(x: Tensor) -> tuple[Tensor, Tensor]:
    """Each sample divided by its largest entry, a constant (1 for zero or non-finite samples)."""
    largest = x.detach().abs().amax(tuple(range(1, x.dim())), keepdim=True)
    scale = torch.where((largest == 0) | ~torch.isfinite(largest), 1.0, largest)
    return x / scale, scale


class _TiedPatchNorm(torch.autograd.Function):
    """(x, n) with the gradient gₓ + x·boxᵀ(gₙ/n) in one pass, and nothing but x and n kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, geometry: Geometry) -> tuple[Tensor, Tensor]:
        norms = _norms(x, geometry)
        ctx.geometry = geometry
        ctx.save_for_backward(x, norms)
        ctx.set_materialize_grads(False)
        return x.view_as(x), norms

    @staticmethod
    def backward(ctx: Any, grad_x: Tensor | None, grad_norms: Tensor | None) -> tuple[Tensor | None, None]:
        if grad_norms is None:
            return grad_x, None
        x, norms = ctx.saved_tensors
        inverse = safe_reciprocal(norms)
        if grad_x is None or grad_x.dtype != norms.dtype or torch.is_grad_enabled():
            share = (upcast(x) * _box_transposed(grad_norms * inverse, x, ctx.geometry)).to(x.dtype)
            return share if grad_x is None else grad_x + share, None
        # x and 1/n may each be far from 1, never their product: meet in the middle
        size = float(norms.max()) if norms.device.type == "cpu" and norms.numel() else 1.0
        size = size if 0 < size < math.inf else 1.0
        spread = _box_transposed(grad_norms * (inverse * size), x, ctx.geometry)
        return grad_x.addcmul_(x, spread, value=1 / size), None  # grad_x is ours: only the operator read this x


def _box_transposed(grad: Tensor, x: Tensor, geometry: Geometry) -> Tensor:
    """boxᵀ of a map of output positions, ready to multiply x: (N, 1 or C, ...)."""
    g, shape = geometry, (x.shape[0], geometry.groups, *x.shape[2:])
    if not g.kernel:
        spread = grad
    elif not g.transposed and set(g.stride) == {1} and all(p >= 0 for p in _mirrored(g)):
        spread = box(grad, replace(g, padding=_mirrored(g)))
    else:
        with torch.enable_grad():
            probe = grad.new_zeros(shape).requires_grad_()
            (spread,) = torch.autograd.grad(box(probe, g), probe, grad, create_graph=grad.requires_grad)
    if geometry.groups in (1, x.shape[1]):
        return spread
    return spread.repeat_interleave(x.shape[1] // geometry.groups, dim=1)


def _mirrored(g: Geometry) -> tuple[int, ...]:
    """The padding with which a box of stride 1 is its own transpose."""
    return tuple(d * (k - 1) - p for k, p, d in zip(g.kernel, g.padding, g.dilation, strict=True))
