"""Sums over processes that can be differentiated any number of times."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed
from torch import Tensor


class SumOverProcesses(torch.autograd.Function):
    """The sum over the processes of a group; its gradient is summed as well, since every process used the sum."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: Any = None) -> Tensor:
        ctx.group, out = group, values.clone()
        torch.distributed.all_reduce(out, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        found: Tensor = SumOverProcesses.apply(gradients[0], ctx.group)
        return found, None


def moments(x: Tensor, group: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance of each channel of x (N, C, ...) over the batches of all processes, and their number of values.

    Each pass sends one message of two numbers a channel.
    """
    axes = [axis for axis in range(x.dim()) if axis != 1]
    count = x.numel() // x.shape[1]
    sums = torch.cat([x.sum(axes), (x * x).sum(axes), x.new_tensor([float(count)])])
    total = SumOverProcesses.apply(sums, group)
    mean, square = (total[:-1] / total[-1]).chunk(2)
    return mean, (square - mean * mean).clamp_min(0), total[-1]
