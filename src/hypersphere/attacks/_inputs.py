"""What attacks are given: inputs, labels, budgets and bounds. Values are read only where that stops no graph."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.checks import check_positive, is_number
from .._core.errors import check_floating

IGNORE = -100  # the label of ignored samples, as in torch.nn.functional.cross_entropy
Number = float | Tensor
Bounds = tuple[Number, Number]


def check_inputs(x: Tensor, clip: Bounds | None, check: bool) -> None:
    """A batch of floating-point inputs that lie within ``clip``."""
    check_floating("x", x)
    if x.dim() < 2:
        raise ValueError(f"x of shape {tuple(x.shape)} must be a batch: (N, ...), one sample per row")
    if check and values(x) and not bool(x.isfinite().all()):
        sample = int((~x.isfinite()).flatten(1).any(1).nonzero()[0])
        raise ValueError(f"x holds NaN or infinite values, first in sample {sample}: there is nothing to attack there")
    if clip is None:
        return
    if (
        not isinstance(clip, tuple | list)
        or len(clip) != 2
        or not all(is_number(bound) or isinstance(bound, Tensor) for bound in clip)
    ):
        raise ValueError(
            f"clip={clip!r} must be (lowest, highest) value of an input, or None for inputs without bounds"
        )
    for name, bound in zip(("clip[0]", "clip[1]"), clip, strict=True):
        check_shape(name, bound, x)
    if not (check and values(x)):
        return
    low, high = (torch.as_tensor(bound, dtype=torch.float32, device=x.device) for bound in clip)
    if not bool((low < high).all()):
        raise ValueError(f"clip={clip!r} must be (lowest, highest)")
    slack = 1e-2 if x.dtype in (torch.bfloat16, torch.float16) else 1e-4
    outside = (x < low - slack * (high - low)) | (x > high + slack * (high - low))
    if bool(outside.any()):
        raise ValueError(
            f"x runs from {x.min().item():g} to {x.max().item():g}, outside clip: give the bounds of your "
            "normalisation, e.g. hs.attacks.pixels('symmetric').clip"
        )


def check_labels(labels: Tensor, x: Tensor) -> None:
    """One class number for each sample."""
    if (
        not isinstance(labels, Tensor)
        or labels.is_floating_point()
        or labels.is_complex()
        or labels.dtype == torch.bool
    ):
        raise TypeError("labels must be a tensor of class numbers, e.g. torch.int64")
    if labels.shape != x.shape[:1]:
        raise ValueError(f"labels of shape {tuple(labels.shape)} must be ({len(x)},): one for each sample of x")


def check_logits(logits: Tensor, labels: Tensor, check: bool) -> None:
    """``(N, C)`` with at least two classes, every label one of them or -100."""
    if not isinstance(logits, Tensor) or logits.dim() != 2 or len(logits) != len(labels) or logits.shape[1] < 2:
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(
            f"the model gave {shape}: an attack needs logits ({len(labels)}, classes) of two classes or more"
        )
    if check and values(labels):
        wrong = (labels >= logits.shape[1]) | ((labels < 0) & (labels != IGNORE))
        if bool(wrong.any()):
            raise ValueError(
                f"labels hold {labels[wrong][0].item()}, but the model has classes 0 to {logits.shape[1] - 1} "
                f"(and {IGNORE} for ignored samples)"
            )


def check_number(name: str, value: Number, x: Tensor, check: bool) -> None:
    """A number ≥ 0, or a tensor of such numbers for each channel or sample."""
    if isinstance(value, Tensor):
        check_shape(name, value, x)
        if check and values(value) and not bool((value >= 0).all()):
            raise ValueError(f"{name} must be ≥ 0 everywhere")
    else:
        check_positive(name, value, zero=True)


def check_shape(name: str, value: Number, x: Tensor) -> None:
    """A tensor among the settings must fit into the shape of ``x``, where ``x`` is."""
    if not isinstance(value, Tensor):
        return
    if value.dim() and value.device != x.device:
        raise ValueError(f"{name} is on {value.device}, x on {x.device}: move it there once, e.g. pixels(..., device=)")
    try:
        fits = torch.broadcast_shapes(value.shape, x.shape) == x.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"{name} of shape {tuple(value.shape)} must broadcast to x {tuple(x.shape)}, e.g. (C, 1, 1)")


def clamped(x: Tensor, bounds: Bounds | None) -> Tensor:
    """``x`` within bounds that may be numbers or tensors."""
    if bounds is None:
        return x
    low, high = bounds
    x = torch.maximum(x, low.to(x.dtype)) if isinstance(low, Tensor) else x.clamp_min(low)
    return torch.minimum(x, high.to(x.dtype)) if isinstance(high, Tensor) else x.clamp_max(high)


def values(tensor: Tensor) -> bool:
    """Whether values may be looked at: not while compiling or capturing, where nothing is known yet."""
    if torch.compiler.is_compiling():
        return False
    return not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
