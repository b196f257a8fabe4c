"""Length and direction of vectors in one go."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.sphere import norm
from ._fused import polar_rows


def polar_form(x: Tensor) -> tuple[Tensor, Tensor]:
    """(‖x‖ with its last dimension kept, x/‖x‖), at any scale; a zero vector has direction 0 and gradient 0."""
    fused = polar_rows(x)
    if fused is not None:
        return fused
    length = norm(x, keepdim=True)
    zero = length == 0
    direction = torch.where(zero, 0.0, x / torch.where(zero, 1.0, length))
    return length, direction
