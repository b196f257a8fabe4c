"""‖x‖ of every patch: a box filter over the per-position sum of squares (per group)."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from ..._core.checks import check_count
from ..._core.errors import check_floating
from ..._core.modes import is_plain_eager, needs_definition
from ..._core.sphere import compute_dtype, safe_reciprocal, sqrt, upcast
from .geometry import Geometry, box, convolve_backward, depthwise_ones, per_dimension


def patch_norm(
    x: Tensor,
    kernel_size: int | tuple[int, ...],
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    """‖x_p‖ = √(Σ x²) over the entries of the patch x_p under each position p of a window.

    The norm is float32 for half-precision inputs, whose squares would overflow; otherwise it has the dtype of x. A zero
    patch has norm 0 and gradient 0. On a CPU the norm is accurate for finite inputs of any size, also if huge and tiny
    ones are next to each other (in float64, and in compiled and exported graphs, down to 1e-30 of the largest entry of
    a sample). On other devices squares must fit the dtype (norms from 1e-19 to 1e19 in float32): larger patches give
    inf, for which operators return 0.

    Args:
        x: the input, with one to three spatial dimensions.
        kernel_size: size of the window, a number or one per dimension.
        stride: step of the window, one number or one per dimension; larger steps give smaller outputs.
        padding: zeros added on each side, in numbers.
        dilation: distance between the entries of a patch.
        groups: number of groups of channels, each with a separate norm.

    Returns:
        The norm of each patch, one for each group and position.

    Shape:
        - x: (N, C, ...).
        - Output: (N, groups, ...), the spatial size of a convolution's output.

    Raises:
        ValueError: If ``x`` and ``kernel_size`` have different numbers of spatial dimensions, or ``groups`` does not
            divide the channels.
        TypeError: If ``x`` is not a floating-point tensor.

    Example:
        >>> hs.functional.patch_norm(torch.ones(1, 4, 5, 5), kernel_size=3).shape
        torch.Size([1, 1, 3, 3])
    """
    check_floating("x", x)
    check_count("groups", groups)
    dims = len(kernel_size) if isinstance(kernel_size, tuple | list) else x.dim() - 2
    if dims not in (1, 2, 3) or x.dim() != dims + 2:
        raise ValueError(
            f"x has shape {tuple(x.shape)} and kernel_size is {kernel_size!r}: pass (N, C, ...) with 1 to 3 spatial "
            f"dimensions, one for each entry of kernel_size"
        )
    if x.shape[1] % groups:
        raise ValueError(f"groups={groups} does not divide the {x.shape[1]} channels of x")
    geometry = Geometry(
        per_dimension("kernel_size", kernel_size, dims),
        per_dimension("stride", stride, dims),
        per_dimension("padding", padding, dims, minimum=0),
        per_dimension("dilation", dilation, dims),
        groups,
    )
    return tied_patch_norm(x, geometry)[1].to(compute_dtype(x.dtype))


def tied_patch_norm(x: Tensor, geometry: Geometry) -> tuple[Tensor, Tensor]:
    """x itself and its patch norms, in float64 both where what is computed from them would leave float32.

    What is computed from both should read the x that comes back: its gradient and that of the norms
    are then added up in one pass.
    """
    if not is_plain_eager(x):
        return x, _composed(x, geometry)
    with torch.no_grad():
        squares, scale = _sum_of_squares(x, geometry), None
        narrow = x.device.type == "cpu" and x.dtype != torch.float16 and not _within_range(x, squares, geometry)
        if narrow and x.dtype == torch.float64:
            squares, scale = _rescaled_squares(x, geometry)
    if narrow and x.dtype != torch.float64:
        return tied_patch_norm(x.double(), geometry)
    if torch.is_grad_enabled() and x.requires_grad:
        return _TiedPatchNorm.apply(x, squares, scale, geometry)
    return x, _root(squares, scale)


def _composed(x: Tensor, geometry: Geometry) -> Tensor:
    """The norms by differentiable operations; on a CPU each sample is brought into range first."""
    if x.device.type != "cpu" or x.dtype == torch.float16 or x.numel() == 0:
        return sqrt(_sum_of_squares(x, geometry))
    squares, scale = _rescaled_squares(x, geometry)
    # divided by a constant near them, no derivative of the root leaves its dtype
    constant = torch.where((squares > 0) & (squares < torch.inf), squares, 1.0).detach()
    return sqrt(squares / constant) * (constant.sqrt() * scale)


def _root(squares: Tensor, scale: Tensor | None) -> Tensor:
    return squares.sqrt() if scale is None else squares.sqrt().mul_(scale)


def _sum_of_squares(x: Tensor, geometry: Geometry) -> Tensor:
    wide = upcast(x)
    return box(_grouped_sum(wide * wide, geometry.groups), geometry)


def _grouped_sum(x: Tensor, groups: int) -> Tensor:
    """(N, C, ...) summed over the channels of each group."""
    if groups == 1:
        return x.sum(1, keepdim=True)
    return x if groups == x.shape[1] else x.unflatten(1, (groups, -1)).sum(2)


def _within_range(x: Tensor, squares: Tensor, geometry: Geometry) -> bool:
    """Whether every patch is zero or so far from both ends of its dtype that n² and 1/n² may be multiplied by more."""
    if squares.numel() == 0:
        return True
    limits = torch.finfo(squares.dtype)
    low, high = (float(bound) for bound in squares.aminmax())
    if not high < limits.max**0.75:
        return False
    tiny = limits.tiny / limits.eps
    return low > tiny or not bool(box(_grouped_sum(x.abs(), geometry.groups), geometry)[squares <= tiny].any())


def _rescaled_squares(x: Tensor, geometry: Geometry) -> tuple[Tensor, Tensor]:
    """Sums of squares of each sample over a constant, and that constant.

    The largest entry becomes so large that squares just fit, and with them those of 1e-30 of it. A
    constant near the ends of its dtype would not survive the multiplications of a backward pass.
    """
    wide = upcast(x)
    limits = torch.finfo(wide.dtype)
    largest, target = wide.detach().abs().amax(tuple(range(1, x.dim())), keepdim=True), limits.max**0.375
    scale = torch.where(torch.isfinite(largest), (largest / target).clamp_min(target / limits.max), 1.0)
    return _sum_of_squares(wide / scale, geometry), scale


class _TiedPatchNorm(torch.autograd.Function):
    """(x, n) with the gradient gₓ + x·boxᵀ(gₙ/n) in one pass, and nothing but x and n kept."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, squares: Tensor, scale: Tensor | None, geometry: Geometry
    ) -> tuple[Tensor, Tensor]:
        norms = _root(squares, scale)
        ctx.geometry = geometry
        ctx.save_for_backward(x, norms)
        ctx.set_materialize_grads(False)
        return x.view_as(x), norms

    @staticmethod
    def backward(ctx: Any, grad_x: Tensor | None, grad_norms: Tensor | None) -> tuple[Tensor | None, None, None, None]:
        if grad_norms is None:
            return grad_x, None, None, None
        x, norms = ctx.saved_tensors
        spread = _box_transposed(grad_norms * safe_reciprocal(norms), x, ctx.geometry)
        if grad_x is None or grad_x.dtype != norms.dtype or needs_definition(grad_x, grad_norms):
            share = upcast(x) * spread  # rounded after the sum: two infinities of half precision would make NaN
            return (share if grad_x is None else share + upcast(grad_x)).to(x.dtype), None, None, None
        # in place: grad_x is ours, only the operator read this x
        return grad_x.addcmul_(x, spread), None, None, None


def _box_transposed(grad: Tensor, x: Tensor, geometry: Geometry) -> Tensor:
    """boxᵀ of a map of output positions, ready to multiply x: (N, 1 or C, ...)."""
    g, shape = geometry, (x.shape[0], geometry.groups, *x.shape[2:])
    ones = None if g.transposed or grad.numel() == 0 else depthwise_ones(grad, g)
    if not g.kernel:
        spread = grad
    elif not g.transposed and set(g.stride) == {1} and all(p >= 0 for p in _mirrored(g)):
        spread = box(grad, g._replace(padding=_mirrored(g)))
    elif ones is not None:
        spread = cast(Tensor, convolve_backward(grad, grad.new_empty(shape), ones, g, (True, False))[0])
    else:
        with torch.enable_grad():
            probe = x.new_zeros(shape, dtype=grad.dtype).requires_grad_()
            (spread,) = torch.autograd.grad(box(probe, g), probe, grad, create_graph=grad.requires_grad)
    if geometry.groups in (1, x.shape[1]):
        return spread
    return spread.repeat_interleave(x.shape[1] // geometry.groups, dim=1)


def _mirrored(g: Geometry) -> tuple[int, ...]:
    """The padding with which a box of stride 1 is its own transpose."""
    return tuple(d * (k - 1) - p for k, p, d in zip(g.kernel, g.padding, g.dilation, strict=True))
