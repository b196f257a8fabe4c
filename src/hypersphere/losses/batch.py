"""Losses that compare the samples of a batch with each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from .._core.modes import differentiated, is_transformed, needs_definition
from .._core.sphere import norm, unit

Everyone: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, int]]
"""(features, labels) of this process → those of all processes, and the row where its own begin."""


class BatchWide(nn.Module):
    """A loss that looks at the whole batch. Under data parallel training set ``everyone`` to what gathers it.

    ``everyone(features, labels)`` returns features and labels of all processes, differentiably, and the first row of
    this one; it is called in training mode only. ``hypersphere train`` sets it.
    """

    everyone: Everyone | None = None

    def whole_batch(self, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, int]:
        """x, labels and the row where this process begins; of all processes, if there is more than one."""
        return self.everyone(x, labels) if self.everyone is not None and self.training else (x, labels, 0)


class Others(NamedTuple):
    """Of each own sample (row) to every sample (column): distance, and which ones are of its class or of others."""

    distance: Tensor
    same: Tensor
    different: Tensor


def other_samples(loss: BatchWide, x: Tensor, labels: Tensor, counts: Tensor, normalize: bool) -> Others:
    """Euclidean distances, of the directions if ``normalize``, without the cancellation of 2 − 2 cos.

    The gradient of the distance of a duplicate is 0. A sample is never its own partner, and ignored samples have no
    partners.
    """
    points = unit(x) if normalize else x
    marked = torch.where(counts, labels, -1)
    every, names, first = loss.whole_batch(points, marked)
    distance = _distances(points, every)
    rows = torch.arange(first, first + points.shape[0], device=x.device)
    pairs = (marked[:, None] >= 0) & (names >= 0) & (rows[:, None] != torch.arange(every.shape[0], device=x.device))
    same = marked[:, None] == names
    return Others(distance, pairs & same, pairs & ~same)


def _distances(x: Tensor, y: Tensor) -> Tensor:
    """‖x_i − y_j‖ (N, M), also where torch's own function has no derivative: forward mode and second derivatives."""
    if is_transformed(x, y):
        return _definition(x, y)
    return _cdist(x, y) if torch.compiler.is_compiling() else _Distances.apply(x, y)


def _definition(x: Tensor, y: Tensor) -> Tensor:
    return norm(x[:, None] - y)


def _cdist(x: Tensor, y: Tensor) -> Tensor:
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


class _Distances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        distance = _cdist(x, y)
        ctx.save_for_backward(x, y, distance)
        return distance

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, y, distance = ctx.saved_tensors
        if needs_definition(grad):
            return tuple(differentiated(lambda x, y: [_definition(x, y)], (x, y), ctx.needs_input_grad, [grad]))
        of_x, of_y = ctx.needs_input_grad
        back = torch.ops.aten._cdist_backward
        return (
            back(grad.contiguous(), x, y, 2.0, distance) if of_x else None,
            back(grad.mT.contiguous(), y, x, 2.0, distance.mT.contiguous()) if of_y else None,
        )
