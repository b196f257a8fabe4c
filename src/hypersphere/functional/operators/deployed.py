"""The operator as exported graphs compute it, for inference: few nodes, and no rescaling of ranges.

    f = a·h(n)·g(⟨ŵ, x⟩/n) + b,   n = √(Σ x² + ε)

ε takes the place of every test for zero: a zero patch gives g(0) = 0. It is the square of the smallest norm that is
told from zero. In float32 the result is right for patches with norms between 1e-12 and 1e18 (1e-130 and 1e150 in
float64), and the norms of filters must lie in the same range. Patches below that range count as zero patches.
Cosines are clipped to [−1, 1] for the arcsine, except behind a ReLU where no filter can come near them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..._core.modes import behind, is_exporting, is_nowhere_negative, outside_the_tracer
from ..._core.sphere import upcast
from ..angular import ANGULAR
from .closed_forms import form_of
from .geometry import Geometry, convolve, per_channel

_INSIDE = 0.95  # half precision rounds by less than the rest
_NOTHING = 1e-30  # BatchNorm's ε must be positive; 1 + _NOTHING is 1


def deployed(
    x: Tensor,
    unit: Tensor,
    geometry: Geometry,
    h: Any,
    g: Any,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
) -> Tensor:
    """a·h·g + b for unit filters, of the dtype of x.

    Args:
        x: (N, C, ...).
        unit: Filters of norm 1 (zero filters stay zero); where g is the cosine, they may hold a factor for each filter.
        geometry: How patches are read.
        h: Magnitude function.
        g: Angular function.
        scale: a, one for each channel.
        shift: b, one for each channel.

    Returns:
        What the layer gives, without gradients in mind: at a zero patch and at cos = ±1 they are not defined.
    """
    n = deployed_norm(x, geometry)
    y = upcast(convolve(x, unit.to(x.dtype), geometry))
    n, closed = per_channel(n, y.shape[1]), form_of(g)
    constant = getattr(h, "constant", None)
    if closed is not None and closed[0] == "cosine" and constant is None:
        value = y * _ratio(h, n)
    else:
        value = y / n
        if closed is None or closed[0] not in ANGULAR:
            value = g.from_cos(value)
        elif closed[0] != "cosine":
            if closed[0] != "square_cosine" and not _is_inside(x, unit, geometry):
                value = value.clamp(-1, 1)
            value, scale = _curved(value, closed[0], closed[1], scale)
        if constant is None:
            value = value * h(n)
        elif constant != 1.0:
            scale = value.new_tensor(constant) if scale is None else scale * constant
    return _affine(value, scale, shift).to(x.dtype)


def _affine(value: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    """a·value + b by one node: that of a BatchNorm with mean 0 and variance 1, where there are both."""
    shape = (-1, *[1] * (value.dim() - 2))
    if scale is not None and shift is not None:
        zeros, ones = torch.zeros_like(shift), torch.ones_like(shift)
        return F.batch_norm(value, zeros, ones, scale.expand_as(shift), shift, False, 0.0, _NOTHING)
    if scale is not None:
        return value * (scale if scale.dim() == 0 else scale.view(shape))
    return value if shift is None else value + shift.view(shape)


def deployed_norm(x: Tensor, geometry: Geometry) -> Tensor:
    """√(Σ x² + ε) of every patch: one reduction and one convolution with ones, whose bias is ε."""
    wide = upcast(x)
    limits = torch.finfo(wide.dtype)
    epsilon = limits.tiny / limits.eps
    if geometry.groups == 1:
        squares = _channel_squares(wide)
    elif geometry.groups == x.shape[1]:
        squares = wide.square()
    else:
        squares = wide.square().unflatten(1, (geometry.groups, -1)).sum(2)
    if math.prod(geometry.kernel) == 1 and set(geometry.stride) <= {1} and not any(geometry.padding):
        return squares.clamp_min(epsilon).sqrt()  # ONNX optimizers take a sum with so small a number away
    g = geometry
    groups = squares.shape[1]
    return torch.convolution(
        squares,
        squares.new_ones((groups, 1, *g.kernel)),
        squares.new_full((groups,), epsilon),
        g.stride,
        g.padding,
        g.dilation,
        g.transposed,
        g.output_padding or (0,) * len(g.kernel),
        groups,
    ).sqrt()


def _channel_squares(x: Tensor) -> Tensor:
    """Σ_c x² of every position; ONNX has one operator for it."""
    if torch.onnx.is_in_onnx_export() and is_exporting():
        axes, shape = torch.tensor([1]), (x.shape[0], 1, *x.shape[2:])
        return torch.onnx.ops.symbolic("ReduceSumSquare", (x, axes), {"keepdims": 1}, dtype=x.dtype, shape=shape)
    # the square of a small map costs less than a map of squares
    return torch.linalg.vector_norm(x, dim=1, keepdim=True).square()


def deployed_unit(weight: Tensor, geometry: Geometry) -> Tensor:
    """ŵ of the filters of a weight by three nodes, which runtimes fold; a zero filter stays zero."""
    filters, dims = geometry.filters(upcast(weight))
    length = torch.linalg.vector_norm(filters, dim=dims, keepdim=True)
    unit = filters / length.clamp_min(torch.finfo(filters.dtype).tiny)
    return unit.flatten(0, 1) if geometry.transposed else unit


def _ratio(h: Any, n: Tensor) -> Tensor:
    ratio: Callable[[Tensor], Tensor] | None = getattr(h, "ratio", None)
    return h(n) / n if ratio is None else ratio(n)


def _is_inside(x: Tensor, unit: Tensor, geometry: Geometry) -> bool:
    """Whether no patch of x has a cosine near ±1, so that rounding cannot take it out of the domain of the arcsine.

    Behind a ReLU, x ≥ 0 and −‖ŵ⁻‖ ≤ ⟨ŵ, x⟩/‖x‖ ≤ ‖ŵ⁺‖: the parts of a filter of one sign are well below 1 unless nearly
    all its weights have that sign.
    """
    real = None if geometry.transposed or not is_nowhere_negative(x) else behind(unit)
    if real is None:
        return False
    with outside_the_tracer():
        wide = upcast(real.detach()).flatten(1)
        parts = [torch.linalg.vector_norm(part.relu(), dim=1) for part in (wide, -wide)]
        return bool(torch.cat(parts).max() <= _INSIDE)


def _curved(c: Tensor, kind: str, k: Tensor | float, scale: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """g without its constant factor, and that factor times ``scale``."""
    if kind == "square_cosine":
        return c * c.abs(), scale
    angle = c.asin()
    if kind == "linear":
        factor: Tensor | float = 2 / math.pi
    else:
        if isinstance(k, Tensor):
            k = upcast(k)
            factor = 1 / torch.tanh(math.pi / (4 * k))
            angle = angle * (0.5 / (k if k.dim() == 0 else k.reshape(-1, *[1] * (c.dim() - 2))))
        else:
            factor = 1 / math.tanh(math.pi / (4 * k))
            angle = angle * (0.5 / k)
        angle = torch.tanh(angle)
    if scale is None:
        return angle, factor if isinstance(factor, Tensor) else c.new_tensor(factor)
    return angle, scale * factor
