"""The share of each sample's own class in a loss with an additive margin, and the sum or mean over the samples."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .device import target as device
from .rows import launch, row_grid, row_tile


class Start(NamedTuple):
    """Of features x (N, d): x̂, ‖x‖, s·x̂, and the last as it is multiplied."""

    direction: Tensor
    length: Tensor
    scaled: Tensor
    operand: Tensor


class Target(NamedTuple):
    """The tensors and the margin rule: unit features (N, d), class vectors (C, d), labels as they come.

    The rule is s·(c − m), or s·cos(θ + m) where ``angle``. Samples with the label ``ignored`` do not count.
    """

    direction: Tensor
    w: Tensor
    labels: Tensor
    scale: float
    margin: float
    angle: bool
    ignored: int

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        return *self.direction.shape, self.w.shape[0], self.ignored

    @property
    def numbers(self) -> tuple[float, float, float, float, bool]:
        m = self.margin
        return self.scale, m, math.cos(m), m * math.sin(m), self.angle


def start(x: Tensor, labels: Tensor, ignored: int, scale: float, dtype: torch.dtype) -> Start:
    """What the loss reads of the features, float32 and contiguous; of samples with the label ``ignored`` it is 0."""
    rows, d = x.shape
    scaled = torch.empty_like(x)
    operand = scaled if dtype == x.dtype else torch.empty_like(x, dtype=dtype)
    found = Start(torch.empty_like(x), x.new_empty(rows), scaled, operand)
    launch(device.start_kernel, *row_grid(rows, d), x, labels, *found, rows, d, ignored, scale, *row_tile(d))
    return found


def loss(target: Target, lse: Tensor, reduction: str) -> tuple[Tensor, Tensor]:
    """log(e^lse + e^u) − u of each sample, u its own logit and e^lse the sum over the other classes; or sum or mean.

    Second, the derivative of that sum or mean by the loss of each sample that counts.
    """
    rows, d = target.direction.shape
    each = torch.empty_like(lse)
    tensors = (*target[:3], lse, each)
    launch(device.target_kernel, *row_grid(rows, d), *tensors, *target.sizes, *target.numbers, *row_tile(d))
    if reduction == "none":
        return each, each
    out, share = lse.new_empty(()), lse.new_empty(())
    constants = (rows, target.ignored, reduction == "mean", 1024)
    launch(device.mean_kernel, (1,), each, target.labels, out, share, *constants)
    return out, share


def shares(target: Target, lse: Tensor, d_losses: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of lse and of the own cosine, from that of :func:`loss`."""
    rows, d = target.direction.shape
    d_lse, d_cos = torch.empty_like(lse), torch.empty_like(lse)
    tensors = (*target[:3], lse, d_losses.contiguous(), share, d_lse, d_cos)
    constants = (*target.numbers, d_losses.dim() == 1, *row_tile(d))
    launch(device.target_share_kernel, *row_grid(rows, d), *tensors, *target.sizes, *constants)
    return d_lse, d_cos


def backward(target: Target, length: Tensor, d_cos: Tensor, d_scaled: Tensor, d_w: Tensor) -> Tensor:
    """The gradient of the features, from that of scale·x̂; the share of each sample's own class is added to ``d_w``."""
    rows, d = target.direction.shape
    d_x = torch.empty_like(target.direction)
    tensors = (target.direction, length, target.w, target.labels, d_cos, d_scaled, d_x, d_w)
    launch(device.target_backward_kernel, *row_grid(rows, d), *tensors, *target.sizes, target.scale, *row_tile(d))
    return d_x
