"""The weights and products of a fused layer: unit weights, the convolution, and the gradients of both."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .layout import arranged, empty
from .plan import Plan

_backward_of_convolution: Any = torch.ops.aten.convolution_backward.default


def unit_weight(
    plan: Plan, unit: bool, x: Tensor, w: Tensor, sums: Tensor, stream: int | None
) -> tuple[Tensor, Tensor]:
    """The weight of the convolution and 1/‖w‖ of each filter; ``sums`` is set to 0."""
    if plan.unit is None:  # transposed or weighted: prepared with torch operations
        sums.zero_()
        if not unit:
            return w.to(x.dtype), sums
        grouped = w.float().unflatten(0, (plan.groups, -1))
        axes = (1, *range(3, grouped.dim()))
        largest = grouped.abs().amax(axes, keepdim=True)
        over = torch.where(largest == 0, 0.0, 1.0 / torch.where(largest == 0, 1.0, largest))
        scaled = grouped * over
        length = scaled.square().sum(axes, keepdim=True).sqrt()
        inverse = torch.where(length == 0, 0.0, 1.0 / torch.where(length == 0, 1.0, length))
        direction = scaled * inverse
        return (direction / plan.shift).flatten(0, 1).to(x.dtype), inverse * over
    if plan.weight_moves:
        out = empty(w.shape, x.dtype, w.device, plan.last)
    else:
        w = w if plan.weight_last else w.contiguous()
        out = torch.empty_like(w, dtype=x.dtype)
    inverse = torch.empty(w.shape[0], dtype=torch.float32, device=w.device)
    plan.unit(stream, w, out, inverse, sums)
    return out, inverse


def unit_weight_backward(
    plan: Plan, unit: bool, w: Tensor, grad: Tensor, inverse: Tensor, stream: int | None
) -> Tensor:
    """The gradient of w from that of its unit vectors."""
    if plan.unit is None:
        if not unit:
            return grad.to(w.dtype)
        grouped, g = (v.float().unflatten(0, (plan.groups, -1)) for v in (w, grad))
        axes = (1, *range(3, grouped.dim()))
        direction = grouped * inverse
        along = (direction * g).sum(axes, keepdim=True)
        return ((g - direction * along) * (inverse / plan.shift)).flatten(0, 1).to(w.dtype)
    w = w if plan.weight_last else w.contiguous()
    grad = arranged(grad, plan.weight_last or plan.weight_moves)
    out = torch.empty_like(w)
    plan.unit_backward(stream, w, grad, inverse, out)
    return out


def convolve(x: Tensor, w: Tensor, plan: Plan) -> Tensor:
    """⟨w, x⟩ of every filter and patch."""
    if plan.linear:
        return torch.mm(x, w.t())
    v = plan.window
    outer = v.output_padding or (0,) * len(v.size)
    return torch.convolution(x, w, None, v.stride, v.padding, v.dilation, v.transposed, outer, v.groups)


def convolve_backward(
    dy: Tensor, x: Tensor, w: Tensor, plan: Plan, need: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of x and w that are needed."""
    if not any(need):
        return None, None
    if plan.linear:
        return torch.mm(dy, w) if need[0] else None, torch.mm(dy.t(), x) if need[1] else None
    v = plan.window
    outer = v.output_padding or (0,) * len(v.size)
    dx, dw, _ = _backward_of_convolution(
        dy, x, w, None, v.stride, v.padding, v.dilation, v.transposed, outer, v.groups, (*need, False)
    )
    return (arranged(dx, plan.last) if need[0] else None), dw
