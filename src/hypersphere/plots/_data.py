"""What users pass in, as finite float64 tensors on the CPU, or a ValueError that says what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core.arrays import as_tensor


def float_values(argument: str, value: Any, ndim: int | None = None, *, empty: bool = False) -> Tensor:
    """Numbers of any device and dtype (tensor, array, nested lists) as finite float64 on the CPU."""
    tensor = as_tensor(argument, value)
    if tensor.is_complex():
        raise TypeError(f"{argument} is complex ({tensor.dtype}): pass real numbers")
    tensor = tensor.detach().to(device="cpu", dtype=torch.float64)
    if ndim is not None and tensor.ndim != ndim:
        raise ValueError(f"{argument} has shape {tuple(tensor.shape)}: pass {ndim} dimensions")
    if not tensor.numel() and not empty:
        raise ValueError(f"{argument} is empty (shape {tuple(tensor.shape)}): there is nothing to draw")
    bad = int((~tensor.isfinite()).sum())
    if bad:
        raise ValueError(f"{argument} holds {bad} NaN or infinite values of {tensor.numel()}: remove them first")
    return tensor


def integer_labels(argument: str, value: Any, count: int | None = None) -> Tensor:
    """Class indices (n,) as int64 on the CPU."""
    tensor = as_tensor(argument, value).detach().cpu()
    if not tensor.numel():
        raise ValueError(f"{argument} is empty: there is nothing to draw")
    if tensor.is_floating_point() or tensor.is_complex():
        raise TypeError(f"{argument} has dtype {tensor.dtype}: pass integer class indices")
    if tensor.ndim != 1 or (count is not None and len(tensor) != count):
        wanted = "one for each sample" if count is None else f"{count}, one for each sample"
        raise ValueError(f"{argument} has shape {tuple(tensor.shape)}: pass {wanted}")
    tensor = tensor.long()
    if int(tensor.min()) < 0:
        raise ValueError(f"{argument} holds {int(tensor.min())}: class indices start at 0")
    return tensor


def class_names(classes: Sequence[str] | None, count: int) -> list[str]:
    """A name for each of ``count`` classes: those given, or their indices."""
    if classes is None:
        return [str(index) for index in range(count)]
    if len(classes) < count:
        raise ValueError(f"classes names {len(classes)} classes, but there are {count}: name them all")
    return [str(name) for name in classes]
