"""How a layer reads its input: the one description of a linear map over patches, and what it computes.

A linear layer is the map without spatial dimensions; a transposed convolution is the convolution of
the zero-stuffed input, so its patches hold the zeros between the inputs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ._modes import without_autocast

__all__ = ["Geometry", "box", "convolve", "convolve_backward"]


@dataclass(frozen=True)
class Geometry:
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
    """Sum of (N, groups, ...) over the window at every output position (zero padding)."""
    g = geometry
    if not g.kernel:
        return squares
    if g.transposed or any(d != 1 for d in g.dilation):
        return _box_by_convolution(squares, g)
    padding = g.padding
    if any(2 * p > k for p, k in zip(padding, g.kernel, strict=True)):
        squares = F.pad(squares, [p for p in reversed(padding) for _ in range(2)])
        padding = _zeros(g)
    return _box_by_pooling(squares, g, padding) * float(math.prod(g.kernel))


def _box_by_pooling(squares: Tensor, g: Geometry, padding: tuple[int, ...]) -> Tensor:
    """Window means by 2-d average pooling alone, whose backward is deterministic on every device."""
    if len(g.kernel) == 1:
        (k,), (s,), (p,) = g.kernel, g.stride, padding
        return F.avg_pool2d(squares.unsqueeze(2), (1, k), (1, s), (0, p)).squeeze(2)
    if len(g.kernel) == 2:
        return F.avg_pool2d(squares, g.kernel, g.stride, padding)
    planes = F.avg_pool2d(squares.flatten(0, 1), g.kernel[1:], g.stride[1:], padding[1:])
    depth_first = planes.flatten(2)
    pooled = F.avg_pool2d(depth_first, (g.kernel[0], 1), (g.stride[0], 1), (padding[0], 0))
    return pooled.unflatten(2, planes.shape[2:]).unflatten(0, squares.shape[:2])


def _box_by_convolution(squares: Tensor, g: Geometry) -> Tensor:
    maps = squares.flatten(0, 1).unsqueeze(1)
    ones = torch.ones((1, 1, *g.kernel), dtype=squares.dtype, device=squares.device)
    with without_autocast(squares.device):
        summed = torch.convolution(
            maps, ones, None, g.stride, g.padding, g.dilation, g.transposed, g.output_padding or _zeros(g), 1
        )
    # A fast algorithm may leave rounding noise where all summands are 0; a sum of squares is not negative.
    return summed.squeeze(1).unflatten(0, squares.shape[:2]).clamp_min(0)


def _zeros(g: Geometry) -> tuple[int, ...]:
    return (0,) * len(g.kernel)
