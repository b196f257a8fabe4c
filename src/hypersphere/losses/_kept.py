"""What is read from a buffer that the same forward pass moves on."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.library.custom_op("hypersphere::kept", mutates_args=())
def kept(value: Tensor) -> Tensor:
    """A copy that compilers must keep. They would compute it again in backward, from the buffer already moved."""
    return value.clone()


@kept.register_fake
def _(value: Tensor) -> Tensor:
    return torch.empty_like(value)
