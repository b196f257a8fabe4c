"""When the hand-written eager kernels apply, and when plain differentiable operations must do."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

__all__ = ["is_plain_eager"]


def is_plain_eager(*tensors: Tensor) -> bool:
    """True outside compilers, exporters, torch.func transforms, forward-mode AD and tensor subclasses."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    for tensor in tensors:
        if type(tensor) not in (Tensor, torch.nn.Parameter):
            return False
        if forward_ad.unpack_dual(tensor).tangent is not None:
            return False
    return True
