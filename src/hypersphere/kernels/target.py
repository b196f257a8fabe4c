"""The share of each sample's own class in a loss with an additive margin: one launch forward, one backward."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .device import target as device
from .rows import launch, row_grid, row_tile

__all__ = ["Target", "backward", "losses", "shares"]


class Target(NamedTuple):
    """The tensors and the margin rule: unit features (N, d), class vectors (C, d), labels.

    The rule is s·(c − m), or s·cos(θ + m) where ``angle``.
    """

    direction: Tensor
    w: Tensor
    labels: Tensor
    scale: float
    margin: float
    angle: bool

    @property
    def numbers(self) -> tuple[float, float, float, float, bool]:
        m = self.margin
        return self.scale, m, math.cos(m), m * math.sin(m), self.angle


def losses(target: Target, lse: Tensor) -> Tensor:
    """log(e^lse + e^u) − u of each sample, u its own logit and e^lse the sum over the other classes."""
    rows, d = target.direction.shape
    out = torch.empty_like(lse)
    tensors = (*target[:3], lse, out)
    launch(device.target_kernel, *row_grid(rows, d), *tensors, rows, d, *target.numbers, *row_tile(rows, d))
    return out


def shares(target: Target, lse: Tensor, d_losses: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of lse and of the own cosine."""
    rows, d = target.direction.shape
    d_lse, d_cos = lse.new_empty(2, rows)
    tensors = (*target[:3], lse, d_losses.contiguous(), d_lse, d_cos)
    launch(device.target_share_kernel, *row_grid(rows, d), *tensors, rows, d, *target.numbers, *row_tile(rows, d))
    return d_lse, d_cos


def backward(target: Target, length: Tensor, d_cos: Tensor, d_scaled: Tensor, d_w: Tensor) -> Tensor:
    """The gradient of the features, from that of scale·x̂; the share of each sample's own class is added to ``d_w``."""
    rows, d = target.direction.shape
    d_x = torch.empty_like(target.direction)
    tensors = (target.direction, length, target.w, target.labels, d_cos, d_scaled, d_x, d_w)
    launch(device.target_backward_kernel, *row_grid(rows, d), *tensors, rows, d, target.scale, *row_tile(rows, d))
    return d_x
