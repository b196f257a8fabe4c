"""f(w, x) = h(‖w‖, ‖x‖)·g(θ) over patches (thesis 4.3): one code for every layer that has this form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from .._errors import check_choice, check_count, check_floating
from . import _fused
from ._angular import ANGULAR
from ._angular import angular as angular_function
from ._geometry import Geometry, convolve
from ._magnitude import MAGNITUDES, magnitude_ratio
from ._magnitude import magnitude as magnitude_function
from ._modes import autocast_dtype, is_plain_eager
from ._patch_norm import tied_patch_norm
from ._sphere import norm, safe_reciprocal, unit, upcast

__all__ = [
    "WEIGHTED",
    "AngularRule",
    "Kernel",
    "MagnitudeRule",
    "decouple",
    "decoupled_conv",
    "decoupled_conv_transpose",
    "decoupled_linear",
    "make_kernel",
]

WEIGHTED = ("linear", "product", "separate")


class AngularRule(Protocol):
    """A g. Optional: ``closed_form() -> (kind, k) | None``, which says that it is a built-in one."""

    def from_cos(self, c: Tensor, /) -> Tensor: ...


class MagnitudeRule(Protocol):
    """An h(n). Optional: ``ratio(n)`` = h(n)/n with its limit at 0; ``weight_factor(n)``, the factor of
    ‖w‖ in the separately weighted operator; ``constant``, a number if h is one.
    """

    def __call__(self, n: Tensor, /) -> Tensor: ...


def decoupled_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | str | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    *,
    magnitude: str | MagnitudeRule = "sphere",
    angular: str | AngularRule = "cosine",
    weighted: str | None = None,
) -> Tensor:
    """h·g on the patches of x, as many spatial dimensions (1-3) as ``weight`` has.

    =====================  ==========================================
    ``weighted``           f(w, x)
    =====================  ==========================================
    None                   h(‖x‖)·g(θ)
    ``"linear"``           ‖w‖·h(‖x‖)·g(θ)
    ``"product"``          h(‖w‖·‖x‖)·g(θ)
    ``"separate"``         h(‖w‖)·h(‖x‖)·g(θ), α counted once
    =====================  ==========================================

    Args are those of :func:`torch.nn.functional.conv2d`. ``magnitude`` and ``angular`` are names (with
    their default parameters) or objects: anything called with the norm, anything with ``from_cos(c)``.
    A zero patch gives 0, with gradient 0 unless g is the cosine and h vanishes linearly, where the
    gradient is the limit; a zero kernel gives 0. Half precision computes norms and angles in float32.
    """
    _check_tensors(x, weight, 3, 5)
    dims = weight.dim() - 2
    strides, dilations = _tuple("stride", stride, dims), _tuple("dilation", dilation, dims)
    kernel = tuple(weight.shape[2:])
    check_count("groups", groups)
    if isinstance(padding, str):
        if check_choice("padding", padding, ("same", "valid")) == "same" and any(s != 1 for s in strides):
            raise ValueError(f"padding='same' needs stride 1, not {stride!r}: give the padding as numbers")
        x, padding = _same_padding(x, kernel, dilations) if padding == "same" else (x, 0)
    paddings = _tuple("padding", padding, dims, minimum=0)
    geometry = Geometry(kernel, strides, paddings, dilations, groups)
    return _over_batch(x, weight, bias, geometry, weight.shape[1] * groups, magnitude, angular, weighted)


def decoupled_conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    groups: int = 1,
    dilation: int | tuple[int, ...] = 1,
    *,
    magnitude: str | MagnitudeRule = "sphere",
    angular: str | AngularRule = "cosine",
    weighted: str | None = None,
) -> Tensor:
    """h·g on the patches of the zero-stuffed x, whose convolution a transposed convolution is.

    Args are those of :func:`torch.nn.functional.conv_transpose2d`; the rest as in :func:`decoupled_conv`.
    ‖w‖ is the norm of an output channel's whole kernel.
    """
    _check_tensors(x, weight, 3, 5)
    dims = weight.dim() - 2
    strides, dilations = _tuple("stride", stride, dims), _tuple("dilation", dilation, dims)
    paddings = _tuple("padding", padding, dims, minimum=0)
    outer = _tuple("output_padding", output_padding, dims, minimum=0)
    check_count("groups", groups)
    geometry = Geometry(tuple(weight.shape[2:]), strides, paddings, dilations, groups, True, outer)
    return _over_batch(x, weight, bias, geometry, weight.shape[0], magnitude, angular, weighted)


def decoupled_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    magnitude: str | MagnitudeRule = "sphere",
    angular: str | AngularRule = "cosine",
    weighted: str | None = None,
) -> Tensor:
    """h·g of the rows of ``weight`` (out, in) and x (..., in): see :func:`decoupled_conv`."""
    _check_tensors(x, weight, 2, 2)
    if x.dim() == 0 or x.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but weight {tuple(weight.shape)} takes (..., {weight.shape[1]})"
        )
    rows = x.reshape(-1, x.shape[-1])
    out = decouple(rows, weight, Geometry(()), _magnitude(magnitude), _angular(angular), weighted)
    return _with_bias(out, bias).reshape(*x.shape[:-1], weight.shape[0])


def _over_batch(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    geometry: Geometry,
    channels: int,
    magnitude: str | MagnitudeRule,
    angular: str | AngularRule,
    weighted: str | None,
) -> Tensor:
    """A convolution of (N, C, ...), or of one unbatched (C, ...)."""
    dims = len(geometry.kernel)
    batched = x if x.dim() == dims + 2 else x.unsqueeze(0)
    if batched.dim() != dims + 2 or batched.shape[1] != channels:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but weight {tuple(weight.shape)} with groups={geometry.groups} takes "
            f"(N, {channels}, ...) with {dims} spatial dimensions"
        )
    out = decouple(batched, weight, geometry, _magnitude(magnitude), _angular(angular), weighted)
    out = _with_bias(out, bias)
    return out if x.dim() == dims + 2 else out.squeeze(0)


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
    x = _autocast(x, weight)
    if kernel is None:
        kernel = make_kernel(x, weight, geometry, h, g, weighted)
    x, n = tied_patch_norm(x, geometry)
    n = _per_channel(n, kernel.length.numel())
    argument = n * _as_channels(kernel.length, n) if weighted == "product" else n
    closed = _closed_form(g, n.dim())
    if _is_cosine(closed):
        r, s = _ratio(h, argument), None
    else:
        r = safe_reciprocal(n)
        s = None if closed is not None and getattr(h, "constant", None) == 1.0 else h(argument)
    if kernel.shift != 1:
        r = r * kernel.shift
    out = _evaluate(x, kernel.weight, r, s, g, closed, geometry)
    return out if kernel.factor is None else (out * _as_channels(kernel.factor, n)).to(out.dtype)


class Kernel(NamedTuple):
    """What the operator makes of its weight; a recurrent layer makes it once for all time steps."""

    weight: Tensor  # ŵ, or w where ‖w‖ counts and g is the cosine; over ``shift``, in the dtype of x
    length: Tensor  # ‖w‖ of every filter
    factor: Tensor | None  # what multiplies h·g in a weighted operator, unless the weight above holds it
    shift: float


def make_kernel(
    x: Tensor, weight: Tensor, geometry: Geometry, h: MagnitudeRule, g: AngularRule, weighted: str | None = None
) -> Kernel:
    """The kernel for inputs of the device and dtype of x."""
    if weighted is not None:
        check_choice("weighted", weighted, WEIGHTED)
    dtype = _autocast(x, weight).dtype
    filters, dims = _filters(upcast(weight), geometry)
    length = norm(filters, dims, keepdim=True)
    factor = None
    if _is_cosine(_closed_form(g, 2)):  # h(n)·cos θ = (h(n)/n)·⟨ŵ, x⟩, right at n = 0 too
        kernel = filters if weighted in ("linear", "product") else unit(filters, dims)
        if weighted == "separate":
            kernel = kernel * _weight_factor(h, length)
    else:
        kernel = unit(filters, dims)
        if weighted in ("linear", "separate"):
            factor = length if weighted == "linear" else _weight_factor(h, length)
    kernel, shift = kernel.reshape(weight.shape), 1.0
    if dtype == torch.float16 and weighted not in ("linear", "product"):
        shift = _within_half(kernel, geometry)
        kernel = kernel / shift
    return Kernel(kernel.to(dtype), length, factor, shift)


def _is_cosine(closed: tuple[str, float | Tensor] | None) -> bool:
    return closed is not None and closed[0] == "cosine"


def _evaluate(
    x: Tensor,
    kernel: Tensor,
    r: Tensor,
    s: Tensor | None,
    g: AngularRule,
    closed: tuple[str, float | Tensor] | None,
    geometry: Geometry,
) -> Tensor:
    """s·g(r·⟨kernel, x⟩)."""
    if closed is None:
        value = g.from_cos(upcast(convolve(x, kernel, geometry)) * r)
        return (value if s is None else value * s).to(x.dtype)
    tensors = [t for t in (x, kernel, r, s, closed[1]) if isinstance(t, Tensor)]
    run = _fused.fused if is_plain_eager(*tensors) else _fused.composed
    return run(x, kernel, r, s, closed[1], closed[0], geometry)


def _filters(weight: Tensor, geometry: Geometry) -> tuple[Tensor, tuple[int, ...]]:
    """The weight so shaped that reducing over the given dimensions leaves one number per output channel."""
    if not geometry.transposed:
        return weight, tuple(range(1, weight.dim()))
    grouped = weight.unflatten(0, (geometry.groups, -1))
    return grouped, (1, *range(3, grouped.dim()))


def _as_channels(per_filter: Tensor, like: Tensor) -> Tensor:
    return per_filter.reshape(1, -1, *[1] * (like.dim() - 2))


def _per_channel(n: Tensor, channels: int) -> Tensor:
    """(N, groups, ...) so that it broadcasts against (N, channels, ...)."""
    return n if n.shape[1] in (1, channels) else n.repeat_interleave(channels // n.shape[1], dim=1)


def _within_half(kernel: Tensor, geometry: Geometry) -> float:
    """What to divide the kernel by so that no inner product leaves float16: |⟨ŵ, x⟩| ≤ √d·max|x|."""
    return float(2.0 ** math.ceil(math.log2(geometry.fan_in(kernel)) / 2))


def _autocast(x: Tensor, weight: Tensor) -> Tensor:
    """x as a convolution under autocast would take it."""
    dtype = autocast_dtype(x.device)
    if dtype is not None:
        return x if x.dtype == torch.float64 else x.to(dtype)
    if x.dtype != weight.dtype:
        raise TypeError(f"x is {x.dtype} and weight {weight.dtype}: cast one, or run under torch.autocast")
    return x


def _closed_form(g: AngularRule, ndim: int) -> tuple[str, float | Tensor] | None:
    describe = getattr(g, "closed_form", None)
    found: tuple[str, float | Tensor] | None = describe() if describe is not None else None
    if found is None or not isinstance(found[1], Tensor):
        return found
    k = upcast(found[1])
    return found[0], k if k.dim() == 0 else k.reshape(-1, *[1] * (ndim - 2))


def _ratio(h: MagnitudeRule, n: Tensor) -> Tensor:
    ratio: Callable[[Tensor], Tensor] | None = getattr(h, "ratio", None)
    return h(n) * safe_reciprocal(n) if ratio is None else ratio(n)


def _weight_factor(h: MagnitudeRule, length: Tensor) -> Tensor:
    weight_factor: Callable[[Tensor], Tensor] = getattr(h, "weight_factor", h)
    return weight_factor(length)


def _with_bias(out: Tensor, bias: Tensor | None) -> Tensor:
    return out if bias is None else out + bias.to(out.dtype).reshape(-1, *[1] * (out.dim() - 2))


@dataclass(frozen=True)
class _NamedAngular:
    kind: str

    def from_cos(self, c: Tensor) -> Tensor:
        return angular_function(c, self.kind)

    def closed_form(self) -> tuple[str, float]:
        return self.kind, 0.3


@dataclass(frozen=True)
class _NamedMagnitude:
    kind: str

    def __call__(self, n: Tensor) -> Tensor:
        return magnitude_function(n, self.kind)

    def ratio(self, n: Tensor) -> Tensor:
        return magnitude_ratio(n, self.kind)

    @property
    def constant(self) -> float | None:
        return 1.0 if self.kind == "sphere" else None


def _angular(value: str | AngularRule) -> AngularRule:
    return _NamedAngular(check_choice("angular", value, ANGULAR)) if isinstance(value, str) else value


def _magnitude(value: str | MagnitudeRule) -> MagnitudeRule:
    return _NamedMagnitude(check_choice("magnitude", value, MAGNITUDES)) if isinstance(value, str) else value


def _same_padding(
    x: Tensor, kernel: tuple[int, ...], dilation: tuple[int, ...], mode: str = "constant"
) -> tuple[Tensor, tuple[int, ...]]:
    """x and the numbers that ``padding="same"`` means: padded here where the two sides differ."""
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    if mode == "constant" and all(total % 2 == 0 for total in totals):
        return x, tuple(total // 2 for total in totals)
    sides = [side for total in reversed(totals) for side in (total // 2, total - total // 2)]
    return F.pad(x, sides, mode=mode), (0,) * len(kernel)


def _tuple(argument: str, value: Any, dims: int, minimum: int = 1) -> tuple[int, ...]:
    values = tuple(value) if isinstance(value, tuple | list | torch.Size) else (value,) * dims
    values = values * dims if len(values) == 1 else values
    if len(values) != dims:
        raise ValueError(f"{argument}={value!r} must be a number or {dims} numbers")
    return tuple(check_count(argument, v, minimum=minimum) for v in values)


def _check_tensors(x: Tensor, weight: Tensor, lowest: int, highest: int) -> None:
    check_floating("x", x)
    check_floating("weight", weight)
    if not lowest <= weight.dim() <= highest:
        raise ValueError(f"weight has shape {tuple(weight.shape)}: it must have {lowest} to {highest} dimensions")
