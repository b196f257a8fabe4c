"""f(w, x) = h(‖w‖, ‖x‖)·g(θ) over patches (thesis 4.3): one code for every layer that has this form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ... import kernels
from ..._core.checks import check_choice
from ..._core.modes import is_plain_eager
from ..._core.sphere import compute_dtype, norm, safe_reciprocal, unit, upcast
from ..magnitude import MAGNITUDES
from . import fused as _fused
from .blocks import as_convolution_takes, fused_block
from .closed_forms import form_of
from .geometry import Geometry, convolve, per_channel
from .patches import tied_patch_norm

WEIGHTED = ("linear", "product", "separate")


class AngularRule(Protocol):
    """A g. Optional: ``closed_form() -> (kind, k) | None``, which says that it is a built-in one."""

    def from_cos(self, c: Tensor, /) -> Tensor: ...


class MagnitudeRule(Protocol):
    """An h(n).

    Optional: ``ratio(n)`` = h(n)/n with its limit at 0; ``weight_factor(n)``, the factor of ‖w‖ in the separately
    weighted operator; ``constant``, a number if h is one.
    """

    def __call__(self, n: Tensor, /) -> Tensor: ...


def decouple(
    x: Tensor,
    weight: Tensor,
    geometry: Geometry,
    h: MagnitudeRule,
    g: AngularRule,
    weighted: str | None = None,
    kernel: Kernel | None = None,
) -> Tensor:
    """The operator itself on x (N, C, ...): where ‖x‖, ‖w‖, h and g enter."""
    x = as_convolution_takes(x, weight)
    joins = weighted is None or (weighted != "product" and hasattr(h, "closed_form"))
    if weighted == "linear" and _is_cosine(_closed_form(g, 2)):
        joins = False  # w itself is the kernel, so that filters of zeros have gradients
    if joins and kernel is None and kernels.usable(x):
        found = fused_block(x, weight, geometry, h, g, scale=weight_factor(weight, geometry, h, weighted))
        if found is not None:
            return found[0]
    dtype = x.dtype
    if kernel is None:
        kernel = _kernel_as_it_is(x, weight, geometry, g, weighted)
    if kernel is None:
        kernel = make_kernel(x, weight, geometry, h, g, weighted)
    x, n = tied_patch_norm(x, geometry)
    if x.dtype != dtype:  # float64 where float32 does not reach; patches that it cannot divide by are zero patches
        n = torch.where(n < torch.finfo(torch.float32).tiny, 0.0, n)
    n = per_channel(n, geometry.channels(weight))
    argument = n if kernel.length is None else n * _as_channels(kernel.length, n)
    closed = _closed_form(g, n.dim())
    one = closed is not None and getattr(h, "constant", None) == 1.0
    if _is_cosine(closed) and not one:
        r = _of_norms(h, _ratio(h), argument, dtype)
        maps = _fused.Maps(r if kernel.shift == 1 else r * kernel.shift, None, None)
    else:
        s = None if one else _of_norms(h, h, argument, dtype)
        divisor = argument if _is_cosine(closed) else n
        maps = _fused.Maps(None, divisor if kernel.shift == 1 else divisor / kernel.shift, s)
    if kernel.inverse is not None and closed is not None:
        inverse = _as_channels(kernel.inverse, n)
        return _fused.inferred(x, kernel.weight.to(x.dtype), inverse, maps, closed[1], closed[0], geometry).to(dtype)
    out = _evaluate(x, kernel.weight.to(x.dtype), maps, g, closed, geometry, compute_dtype(dtype))
    return (out if kernel.factor is None else out * _as_channels(kernel.factor, n)).to(dtype)


class Kernel(NamedTuple):
    """What the operator makes of its weight; a recurrent layer makes it once for all time steps."""

    weight: Tensor  # ŵ, or w where ‖w‖ counts and g is the cosine; over ``shift``, in the dtype of x
    length: Tensor | None  # ‖w‖ of every filter, where h takes it
    factor: Tensor | None  # what multiplies h·g in a weighted operator, unless the weight above holds it
    shift: float
    inverse: Tensor | None = None  # 1/‖w‖ of every filter, where the weight above is w and inner products are scaled


def _kernel_as_it_is(
    x: Tensor, weight: Tensor, geometry: Geometry, g: AngularRule, weighted: str | None
) -> Kernel | None:
    """The kernel for one forward pass on a CPU, after a single look at the weight; None where ŵ must be made with care.

    For one image, ŵ would cost more than all else that the operator adds to a convolution.
    """
    if torch.is_grad_enabled() or weighted is not None or weight.numel() == 0 or weight.device.type != "cpu":
        return None
    if x.dtype not in (torch.float32, torch.float64) or x.dtype != weight.dtype or not is_plain_eager(x, weight):
        return None
    if _closed_form(g, 2) is None:
        return None
    filters, dims = geometry.filters(weight)
    length = torch.linalg.vector_norm(filters, dim=dims, keepdim=True)
    shortest, longest = (float(bound) for bound in length.aminmax())
    if not (shortest > _SAFE[0] and longest < _SAFE[1]):
        return None
    positions = x.numel() // x.shape[1] // math.prod(geometry.stride)
    if positions < geometry.fan_in(weight):  # the output is smaller than the weight
        return Kernel(weight, None, None, 1.0, length.reciprocal().flatten())
    return Kernel((filters / length).reshape(weight.shape), None, None, 1.0)


# Norms of filters whose inner products with any x that has a norm stay in range.
_SAFE = (1e-6, 1e6)


def make_kernel(
    x: Tensor, weight: Tensor, geometry: Geometry, h: MagnitudeRule, g: AngularRule, weighted: str | None = None
) -> Kernel:
    """The kernel for inputs of the device and dtype of x."""
    if weighted is not None:
        check_choice("weighted", weighted, WEIGHTED)
    dtype = as_convolution_takes(x, weight).dtype
    filters, dims = geometry.filters(upcast(weight))
    factor = None
    if _is_cosine(_closed_form(g, 2)):  # h(n)·cos θ = (h(n)/n)·⟨ŵ, x⟩, right at n = 0 too
        kernel = filters if weighted in ("linear", "product") else unit(filters, dims)
        if weighted == "separate":
            kernel = kernel * _of_length(h, norm(filters, dims, keepdim=True))
    else:
        kernel = unit(filters, dims)
        factor = weight_factor(weight, geometry, h, weighted)
    kernel, shift = kernel.reshape(weight.shape), 1.0
    if dtype == torch.float16 and weighted not in ("linear", "product"):
        shift = _within_half(kernel, geometry)
        kernel = kernel / shift
    length = norm(filters, dims, keepdim=True) if weighted == "product" else None
    return Kernel(kernel.to(dtype), length, factor, shift)


def weight_factor(weight: Tensor, geometry: Geometry, h: MagnitudeRule, weighted: str | None) -> Tensor | None:
    """What ‖w‖ multiplies the output of each filter by: ‖w‖ itself or h(‖w‖); None where it is no factor."""
    if weighted is None or check_choice("weighted", weighted, WEIGHTED) == "product":
        return None
    filters, dims = geometry.filters(upcast(weight))
    length = norm(filters, dims).flatten()
    return length if weighted == "linear" else _of_length(h, length)


def _is_cosine(closed: tuple[str, float | Tensor] | None) -> bool:
    return closed is not None and closed[0] == "cosine"


def _evaluate(
    x: Tensor,
    kernel: Tensor,
    maps: _fused.Maps,
    g: AngularRule,
    closed: tuple[str, float | Tensor] | None,
    geometry: Geometry,
    dtype: torch.dtype,
) -> Tensor:
    """s·g(r·⟨kernel, x⟩); a g of the user's is given cosines of ``dtype``."""
    if closed is None:
        value = g.from_cos(_fused.scaled(upcast(convolve(x, kernel, geometry)), maps).to(dtype))
        return (value if maps.s is None else value * maps.s).to(x.dtype)
    tensors = [t for t in (x, kernel, *maps, closed[1]) if isinstance(t, Tensor)]
    run = _fused.fused if is_plain_eager(*tensors) else _fused.composed
    return run(x, kernel, maps, closed[1], closed[0], geometry)


def _as_channels(per_filter: Tensor, like: Tensor) -> Tensor:
    return per_filter.reshape(1, -1, *[1] * (like.dim() - 2))


def _within_half(kernel: Tensor, geometry: Geometry) -> float:
    """What to divide the kernel by so that no inner product leaves float16: |⟨ŵ, x⟩| ≤ √d·max|x|."""
    return float(2.0 ** math.ceil(math.log2(geometry.fan_in(kernel)) / 2))


def _closed_form(g: AngularRule, ndim: int) -> tuple[str, float | Tensor] | None:
    found: tuple[str, float | Tensor] | None = form_of(g)
    if found is None or not isinstance(found[1], Tensor):
        return found
    k = upcast(found[1])
    return found[0], k if k.dim() == 0 else k.reshape(-1, *[1] * (ndim - 2))


def _of_norms(h: MagnitudeRule, function: Callable[[Tensor], Tensor], n: Tensor, dtype: torch.dtype) -> Tensor:
    """h or its ratio of n; one of the user's is given norms of the dtype that they have for inputs of ``dtype``."""
    if n.dtype == compute_dtype(dtype) or getattr(h, "kind", None) in MAGNITUDES:
        return function(n)
    return function(n.to(compute_dtype(dtype))).to(n.dtype)


def _ratio(h: MagnitudeRule) -> Callable[[Tensor], Tensor]:
    found: Callable[[Tensor], Tensor] | None = getattr(h, "ratio", None)
    return (lambda n: h(n) * safe_reciprocal(n)) if found is None else found


def _of_length(h: MagnitudeRule, length: Tensor) -> Tensor:
    factor: Callable[[Tensor], Tensor] = getattr(h, "weight_factor", h)
    return factor(length)
