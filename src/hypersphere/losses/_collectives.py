"""What processes that share out classes tell each other, as differentiable functions."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def gathered(x: Tensor, group: Any) -> Tensor:
    """The rows of all processes (R·N, ...), in order of rank; the gradient of x is the sum over the processes'."""
    return _Gathered.apply(x, group)


def combined(
    group: Any, lse: Tensor, total: Tensor, own: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """log Σ e^lse, Σ total and Σ own over the processes. Gradients are of the mean over the processes' losses."""
    lse, total, *rest = _Combined.apply(group, lse, total, *own)
    return lse, total, tuple(rest)


def replicated(x: Tensor, group: Any) -> Tensor:
    """x, which is the same on all processes; its gradient is the mean over theirs."""
    return _Replicated.apply(x, group)


def scaled_gradient(x: Tensor, factor: float) -> Tensor:
    """x, with its gradient multiplied."""
    return _Scaled.apply(x, factor)


def total(x: Tensor, group: Any) -> Tensor:
    """The sum over the processes, without a gradient."""
    x = x.contiguous().clone()
    dist.all_reduce(x, group=group)
    return x


class _Gathered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group, ctx.count = group, x.shape[0]
        out = x.new_empty((dist.get_world_size(group) * x.shape[0], *x.shape[1:]))
        dist.all_gather(list(out.chunk(dist.get_world_size(group))), x.contiguous(), group=group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        if dist.get_backend(ctx.group) == "nccl":
            own = grad.new_empty((ctx.count, *grad.shape[1:]))
            dist.reduce_scatter_tensor(own, grad.contiguous(), group=ctx.group)
            return own, None
        begin = dist.get_rank(ctx.group) * ctx.count
        return total(grad, ctx.group)[begin : begin + ctx.count], None


class _Combined(torch.autograd.Function):
    """The sums travel as one message, forward and backward."""

    @staticmethod
    def forward(ctx: Any, group: Any, lse: Tensor, total: Tensor, *own: Tensor) -> tuple[Tensor, ...]:
        largest = lse.clone()
        dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
        parts = [(lse - largest).exp(), total, *own]
        sums = _together(parts, group)
        whole = largest + sums[0].log()
        ctx.group = group
        ctx.save_for_backward((lse - whole).exp())
        return whole, *sums[1:]

    @staticmethod
    def backward(ctx: Any, d_lse: Tensor, *grads: Tensor) -> tuple[Any, ...]:
        (share,) = ctx.saved_tensors
        sums = [grad / dist.get_world_size(ctx.group) for grad in _together([d_lse, *grads], ctx.group)]
        return None, share * sums[0], *sums[1:]


class _Replicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return total(grad, ctx.group) / dist.get_world_size(ctx.group), None


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.factor, None


def _together(parts: list[Tensor], group: Any) -> list[Tensor]:
    """The sum of each over the processes, in one message of the widest dtype."""
    dtype = parts[0].dtype
    for part in parts[1:]:
        dtype = torch.promote_types(dtype, part.dtype)
    flat = torch.cat([part.reshape(-1).to(dtype) for part in parts])
    dist.all_reduce(flat, group=group)
    sums = flat.split([part.numel() for part in parts])
    return [one.view(part.shape).to(part.dtype) for one, part in zip(sums, parts, strict=True)]
