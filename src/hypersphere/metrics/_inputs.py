"""Checks that the evaluation metrics share: embeddings, labels and scores a number can honestly be computed from."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.errors import check_floating
from .._core.sphere import upcast
from ..functional import unit

_ENTRIES = 2**24  # of a block of scores: 64 MB in float32


def check_features(argument: str, x: Tensor, first: int = 0, empty: bool = False) -> Tensor:
    """``x`` detached, refused unless a finite floating (n, d); ``first`` is the number its first row is told by."""
    check_floating(argument, x)
    if x.ndim != 2 or x.shape[1] == 0:
        raise ValueError(f"{argument} has shape {tuple(x.shape)}: pass rows, (n, d) with d ≥ 1")
    if not len(x) and not empty:
        raise ValueError(f"{argument} is empty: there is nothing to evaluate")
    bad = ~x.isfinite().all(1)
    if bool(bad.any()):
        row = first + int(bad.nonzero()[0])
        raise ValueError(f"{argument} has NaN or infinite entries in {int(bad.sum())} rows, first in row {row}")
    return x.detach()


def check_dimensions(one: str, x: Tensor, other: str, y: Tensor) -> None:
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"{one} has dimension {x.shape[1]}, {other} {y.shape[1]}: they must agree")


def check_labels(argument: str, labels: Tensor, count: int) -> Tensor:
    """Labels as int64, refused unless ``count`` whole numbers."""
    if not isinstance(labels, Tensor):
        raise TypeError(f"{argument} must be a torch.Tensor, not {type(labels).__name__}")
    if labels.shape != (count,) or labels.is_floating_point() or labels.is_complex():
        raise ValueError(f"{argument} is {labels.dtype} of shape {tuple(labels.shape)}: pass {count} class numbers")
    return labels.detach().long()


def check_beside(
    what: str, rows: Tensor | None, labels_of: str, labels: Tensor | None, first: tuple[str, Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """Further rows with labels; without any, those of ``first``: its name, rows and labels."""
    name, own, own_labels = first
    if rows is None:
        if labels is not None:
            raise ValueError(f"{labels_of} are given without {what}")
        return own, own_labels
    if labels is None:
        raise ValueError(f"{labels_of} are missing: each row of {what} needs its label")
    rows = check_features(what, rows)
    check_dimensions(what, rows, name, own)
    return rows, check_labels(labels_of, labels, len(rows)).to(own.device)


def score_column(argument: str, scores: Tensor) -> Tensor:
    """Finite scores (n,) as float64 on the CPU, where every comparison of them is exact."""
    check_floating(argument, scores)
    if scores.ndim != 1:
        raise ValueError(f"{argument} has shape {tuple(scores.shape)}: pass one score per pair, (n,)")
    if not len(scores):
        raise ValueError(f"{argument} is empty: there is nothing to evaluate")
    bad = ~scores.isfinite()
    if bool(bad.any()):
        place = int(bad.nonzero()[0])
        raise ValueError(f"{argument} has {int(bad.sum())} NaN or infinite values, first at position {place}")
    return scores.detach().cpu().double()


def directions(x: Tensor) -> Tensor:
    """x/‖x‖ row by row, half precision in float32."""
    return unit(upcast(x))


def class_directions(x: Tensor, target: Tensor, count: int) -> Tensor:
    """The direction of the mean of each class, (count, d), at any scale: no sum overflows, no class underflows."""
    wide = upcast(x)
    largest = torch.zeros(count, dtype=wide.dtype, device=x.device)
    largest = largest.scatter_reduce_(0, target, wide.abs().amax(1), "amax")
    scaled = wide / torch.where(largest == 0, 1.0, largest)[target][:, None]
    return unit(torch.zeros(count, x.shape[1], dtype=wide.dtype, device=x.device).index_add_(0, target, scaled))


def rows_within(columns: int) -> int:
    """How many rows of ``columns`` scores a block may have."""
    return max(1, _ENTRIES // max(columns, 1))
