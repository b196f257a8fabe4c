"""Float32 arithmetic that stays float32, whatever ``torch.set_float32_matmul_precision`` says.

With "high" or "medium" a GPU multiplies float32 matrices in TF32 or bfloat16: an orthogonal matrix is then orthogonal
to 1e-4 only. The setting belongs to the user and to all threads, so it is not changed here. Where it is on, these
functions compute in float64, which data-centre GPUs multiply as fast as float32, and round at the end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..._core.modes import without_autocast

_EXACT = ("none", "ieee")


def is_reduced(x: Tensor) -> bool:
    """Whether products of ``x`` are computed with fewer digits than its dtype has."""
    if x.dtype != torch.float32:
        return False
    if x.is_cuda:
        return torch.backends.cuda.matmul.fp32_precision not in _EXACT
    if x.device.type == "cpu":
        setting = torch.backends.mkldnn.matmul.fp32_precision  # type: ignore[attr-defined]
        return setting not in _EXACT and _cpu_rounds(setting)
    return False


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b`` with the error of the operands' own dtype."""
    return in_full(torch.matmul, a, b)


def in_full(function: Callable[..., Any], first: Tensor, *rest: Tensor) -> Any:
    """``function(first, *rest)`` without autocast, in float64 where float32 would be reduced; in eager mode.

    Tensors come back in the dtype of ``first``.
    """
    if torch._C._is_any_autocast_enabled():
        with without_autocast(first.device):
            return _widened(function, first, *rest)
    return _widened(function, first, *rest)


def _widened(function: Callable[..., Any], first: Tensor, *rest: Tensor) -> Any:
    if not is_reduced(first):
        return function(first, *rest)
    out = function(first.double(), *(x.double() for x in rest))
    return tuple(x.to(first.dtype) for x in out) if isinstance(out, tuple) else out.to(first.dtype)


@functools.cache
def _cpu_rounds(setting: str) -> bool:
    """Whether this processor does anything about the setting; most have no units for it."""
    x = torch.full((64, 64), 1.0 + 2.0**-14)
    return not torch.equal(x @ torch.eye(64), x)
