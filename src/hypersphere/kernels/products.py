"""The weights and products of a fused layer: unit weights, the convolution, and the gradients of both."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._core.modes import without_autocast
from .layout import arranged
from .plan import Plan

_backward_of_convolution: Any = torch.ops.aten.convolution_backward.default


def unit_weight(plan: Plan, w: Tensor, dtype: torch.dtype, memory: Tensor) -> Tensor:
    """The weight of a transposed layer's convolution; 1/‖w‖ goes into the buffer, and the sums there are set to 0."""
    sums, _, _, inverse, *_ = plan.views(memory)
    sums.zero_()
    grouped = w.float().unflatten(0, (plan.groups, -1))
    axes = (1, *range(3, grouped.dim()))
    largest = grouped.abs().amax(axes, keepdim=True)
    over = torch.where(largest == 0, 0.0, 1.0 / torch.where(largest == 0, 1.0, largest))
    scaled = grouped * over
    length = scaled.square().sum(axes, keepdim=True).sqrt()
    reciprocal = torch.where(length == 0, 0.0, 1.0 / torch.where(length == 0, 1.0, length))
    torch.mul(reciprocal, over, out=inverse.view(over.shape))
    return (scaled * reciprocal / plan.shift).flatten(0, 1).to(dtype)


def unit_weight_backward(plan: Plan, w: Tensor, grad: Tensor, memory: Tensor) -> Tensor:
    """The gradient of w from that of its unit vectors."""
    grouped, g = (v.float().unflatten(0, (plan.groups, -1)) for v in (w, grad))
    axes = (1, *range(3, grouped.dim()))
    inverse = plan.views(memory)[3].view(plan.groups, 1, -1, *[1] * (w.dim() - 2))
    direction = grouped * inverse
    along = (direction * g).sum(axes, keepdim=True)
    return ((g - direction * along) * (inverse / plan.shift)).flatten(0, 1).to(w.dtype)


def convolve(x: Tensor, w: Tensor, plan: Plan) -> Tensor:
    """⟨w, x⟩ of every filter and patch."""
    if plan.linear:
        return torch.mm(x, w.t())
    return torch.convolution(x, w, None, *plan.convolution)


def convolve_backward(
    dy: Tensor, x: Tensor, w: Tensor, plan: Plan, need: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of x and w that are needed."""
    if not any(need):
        return None, None
    if plan.linear and torch.is_autocast_enabled(dy.device.type):  # gradients have the dtype of what they belong to
        with without_autocast(dy.device):
            return convolve_backward(dy, x, w, plan, need)
    if plan.linear:
        return torch.mm(dy, w) if need[0] else None, torch.mm(dy.t(), x) if need[1] else None
    dx, dw, _ = _backward_of_convolution(dy, x, w, None, *plan.convolution, (*need, False))
    return (arranged(dx, plan.last) if need[0] else None), dw
