"""What callers pass to a head: features and labels checked, miners' tuples as weights, losses reduced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core.checks import check_choice, check_count, check_positive
from .._core.errors import check_floating
from .._core.labels import class_indices


def check_head(in_features: int, num_classes: int, reduction: str, ignore_index: int) -> tuple[int, int, str, int]:
    """What every loss over classes is built with, checked."""
    return (
        check_count("in_features", in_features),
        check_count("num_classes", num_classes),
        check_choice("reduction", reduction, ("none", "mean", "sum")),
        check_count("ignore_index", ignore_index, minimum=-(2**63)),
    )


def check_class_weight(value: object, num_classes: int) -> Tensor | None:
    """A copy of one number for each class."""
    if value is None:
        return None
    if not isinstance(value, Tensor) or not value.is_floating_point() or value.shape != (num_classes,):
        raise ValueError(f"class_weight must be a floating-point tensor of shape ({num_classes},), one per class")
    return value.detach().clone()


def host_copy(argument: str, value: object) -> Tensor | None:
    """A copy of the numbers of the classes that a head begins with; None where there are none."""
    if not isinstance(value, Tensor):
        return None
    if value.is_meta:
        raise ValueError(f"{argument} is on the meta device and holds no numbers: make it with device='cpu'")
    return value.detach().to("cpu", copy=True)


def check_margins(value: float | Tensor, num_classes: int) -> float | Tensor:
    """An additive margin ≥ 0: a number, or a tensor with one for each class."""
    if not isinstance(value, Tensor):
        return check_positive("margin", value, zero=True)
    if not value.is_floating_point() or value.shape != (num_classes,):
        raise ValueError(
            f"margin of shape {tuple(value.shape)} must be a number or one for each class, ({num_classes},)"
        )
    if value.device.type != "meta" and not bool((value >= 0).all() & value.isfinite().all()):
        raise ValueError("margin holds negative or infinite numbers: pass numbers ≥ 0")
    return value


def check_features(features: Tensor, in_features: int) -> None:
    check_floating("features", features)
    if features.dim() == 0 or features.shape[-1] != in_features:
        raise ValueError(f"features of shape {tuple(features.shape)} must end in in_features={in_features}")


def check_label_shape(labels: Tensor, features: Tensor) -> None:
    if isinstance(labels, Tensor) and labels.shape != features.shape[:-1]:
        raise ValueError(f"labels of shape {tuple(labels.shape)} do not fit features of {tuple(features.shape)}")


def check_labels(labels: Tensor, features: Tensor, num_classes: int, ignore_index: int) -> tuple[Tensor, Tensor]:
    """(labels as int64 and flat, with 0 for the ignored ones; which ones count): see :func:`class_indices`."""
    check_label_shape(labels, features)
    indices, counts = class_indices(labels, num_classes, ignore_index, features.device)
    return indices.reshape(-1), counts.reshape(-1)


def counted(x: Tensor, counts: Tensor) -> Tensor:
    """The samples x (N, d) with 0 in place of the ignored ones, which may be anything: 0·NaN would reach a gradient."""
    return torch.where(counts[:, None], x, 0.0)


def miner_weights(indices_tuple: Sequence[Tensor] | None, samples: int, like: Tensor) -> Tensor | None:
    """A weight for each sample: how often a miner's pairs or triplets name it, over the largest count.

    The convention of pytorch-metric-learning for classification losses: an empty tuple weighs all alike.
    """
    if indices_tuple is None:
        return None
    parts = indices_tuple if isinstance(indices_tuple, tuple | list) else ()
    if len(parts) not in (3, 4) or any(not isinstance(part, Tensor) or part.is_floating_point() for part in parts):
        raise TypeError("indices_tuple must be what a miner returns: 3 (triplets) or 4 (pairs) tensors of indices")
    indices = torch.cat([part.reshape(-1) for part in parts]).to(like.device)
    if indices.numel() == 0:
        return None
    counts = torch.zeros(samples, dtype=like.dtype, device=like.device)
    counts = counts.index_add(0, indices.long(), torch.ones(indices.shape, dtype=like.dtype, device=like.device))
    return counts / counts.amax()


def reduce_losses(losses: Tensor, divisors: Tensor, reduction: str, shape: torch.Size) -> Tensor:
    """``"none"`` in the labels' shape, ``"sum"``, or the mean Σ losses / Σ divisors."""
    if reduction == "none":
        return losses.reshape(shape)
    if reduction == "sum":
        return losses.sum()
    if losses.numel() == 0:
        raise ValueError(
            'the batch is empty: the mean of no loss is undefined; skip the batch, or use reduction="sum", which is 0'
        )
    return losses.sum() / divisors.sum()


def without_margin(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a loss without a margin."""
    for name in ("margin", "annealing", "detach_margin"):
        if name in options:
            shown = "annealing (loss.warmup, loss.annealing)" if name == "annealing" else name
            raise TypeError(f"{shown} has no effect here, this loss has no margin: use a loss with one, e.g. ASoftmax")
    return options


_FREE = "MarginSoftmax, WSoftmax, SSoftmax or GASoftmax"


def without(options: dict[str, Any], *fixed: str, instead: str = _FREE) -> dict[str, Any]:
    """Options of a loss that fixes some of them itself."""
    for name in fixed:
        if name in options:
            raise TypeError(f"{name} is fixed by this loss: use {instead} instead")
    return options
