"""How a layer reads its input: the one description of a linear map over patches, and what it computes.

A linear layer is the map without spatial dimensions; a transposed convolution is the convolution of
the zero-stuffed input, so its patches hold the zeros between the inputs.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..._core.checks import check_count
from ..._core.modes import is_plain_eager, without_autocast


class Geometry(NamedTuple):
    """Window, stride, padding, dilation and groups of a map; ``kernel=()`` is a linear layer."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    groups: int = 1
    transposed: bool = False
    output_padding: tuple[int, ...] = ()

    def fan_in(self, weight: Tensor) -> int:
        """Length of a kernel: how many numbers each inner product sums."""
        inputs = weight.shape[0] // self.groups if self.transposed else weight.shape[1]
        return inputs * math.prod(self.kernel)

    def channels(self, weight: Tensor) -> int:
        """Channels of the output."""
        return weight.shape[1] * self.groups if self.transposed else weight.shape[0]

    def filters(self, weight: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        """The weight so shaped that reducing over the given dimensions leaves one number per output channel."""
        if not self.transposed:
            return weight, tuple(range(1, weight.dim()))
        grouped = weight.unflatten(0, (self.groups, -1))
        return grouped, (1, *range(3, grouped.dim()))


def per_dimension(argument: str, value: Any, dims: int, minimum: int = 1) -> tuple[int, ...]:
    """``value`` as one whole number for each of the ``dims`` spatial dimensions."""
    values = tuple(value) if isinstance(value, tuple | list) else (value,) * dims
    values = values * dims if len(values) == 1 else values
    if len(values) != dims:
        raise ValueError(f"{argument}={value!r} must be a number or {dims} numbers")
    return tuple(check_count(argument, v, minimum=minimum) for v in values)


def per_channel(n: Tensor, channels: int) -> Tensor:
    """(N, groups, ...) so that it broadcasts against (N, channels, ...)."""
    return n if n.shape[1] in (1, channels) else n.repeat_interleave(channels // n.shape[1], dim=1)


def check_window(**sizes: Any) -> None:
    """Every size, a number or one for each dimension, must be at least 1."""
    for argument, value in sizes.items():
        for size in value if isinstance(value, tuple | list) else (value,):
            check_count(argument, size)


def convolve(x: Tensor, weight: Tensor, geometry: Geometry) -> Tensor:
    """⟨w, x⟩ at every position; x is (N, C, ...) and so is the result."""
    if not geometry.kernel:
        return F.linear(x, weight)
    g = geometry
    return torch.convolution(
        x, weight, None, g.stride, g.padding, g.dilation, g.transposed, g.output_padding or _zeros(g), g.groups
    )


def convolve_backward(
    grad: Tensor, x: Tensor, weight: Tensor, geometry: Geometry, need: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of :func:`convolve` for x and for the weight, those that are needed."""
    if not geometry.kernel:
        return grad @ weight if need[0] else None, grad.T @ x if need[1] else None
    g = geometry
    grads: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
        grad, x, weight, None, g.stride, g.padding, g.dilation, g.transposed,
        g.output_padding or _zeros(g), g.groups, (*need, False),
    )  # fmt: skip
    return grads[0], grads[1]


def box(squares: Tensor, geometry: Geometry) -> Tensor:
    """Sum of (N, groups, ...) over the window at every output position (zero padding).

    A box is separable: shifted slices are added up along one dimension after the other. Nothing but
    additions, so that zeros give exactly zero, on every device and in the same order each time; so
    does the depthwise convolution that is faster for many maps on a CPU.
    """
    g = geometry
    if g.transposed:
        return _box_transposed(squares, g)
    for size, k, padding, dilation in zip(squares.shape[2:], g.kernel, g.padding, g.dilation, strict=True):
        if size + 2 * padding < dilation * (k - 1) + 1:
            raise ValueError(
                f"a window of {k} (dilation {dilation}) does not fit into {size + 2 * padding} padded positions: "
                f"use larger inputs, more padding or a smaller kernel"
            )
    ones = depthwise_ones(squares, g)
    if ones is not None:
        with without_autocast(squares.device):
            return convolve(squares, ones, g)
    if any(g.padding):
        squares = F.pad(squares, [p for p in reversed(g.padding) for _ in range(2)])
    for dim, (k, stride, dilation) in enumerate(zip(g.kernel, g.stride, g.dilation, strict=True), start=2):
        if k == stride == 1:
            continue
        length = (squares.shape[dim] - dilation * (k - 1) - 1) // stride + 1
        span = (length - 1) * stride + 1
        total = _window(squares, dim, 0, span, stride)
        for i in range(1, k):
            window = _window(squares, dim, i * dilation, span, stride)
            total = total + window if i == 1 else total.add_(window)
        squares = total
    return squares


def depthwise_ones(squares: Tensor, g: Geometry) -> Tensor | None:
    """The weight with which a depthwise convolution is the box, where oneDNN has a fast one and nothing else counts."""
    if len(g.kernel) != 2 or squares.shape[1] < 8 or squares.dtype != torch.float32 or squares.device.type != "cpu":
        return None
    if not is_plain_eager(squares) or not torch.backends.mkldnn.is_available() or math.prod(g.kernel) == 1:
        return None
    if g.groups != squares.shape[1] or (torch.is_grad_enabled() and squares.requires_grad):
        return None
    return squares.new_ones(g.groups, 1, *g.kernel)


def _window(x: Tensor, dim: int, start: int, span: int, stride: int) -> Tensor:
    """Every ``stride``-th entry of ``span`` entries from ``start``."""
    return x[(slice(None),) * dim + (slice(start, start + span, stride),)]


def _box_transposed(squares: Tensor, g: Geometry) -> Tensor:
    """The same over the zero-stuffed input of a transposed convolution."""
    maps = squares.flatten(0, 1).unsqueeze(1)
    ones = torch.ones((1, 1, *g.kernel), dtype=squares.dtype, device=squares.device)
    with without_autocast(squares.device):
        summed = torch.convolution(
            maps, ones, None, g.stride, g.padding, g.dilation, True, g.output_padding or _zeros(g), 1
        )
    # A fast algorithm may leave rounding noise where all summands are 0; a sum of squares is not negative.
    return summed.squeeze(1).unflatten(0, squares.shape[:2]).clamp_min(0)


def _zeros(g: Geometry) -> tuple[int, ...]:
    return (0,) * len(g.kernel)
