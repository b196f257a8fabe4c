"""The end of a training step by two kernels, where plain operations need about thirty: loss with counts, and sums."""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from .device.criterion import criterion_kernel, tally_kernel
from .launch import Launch, aligned, on, stream_of
from .layout import next_power

_MOST = 1 << 14  # entries of a tile's columns over all rows: one program goes through them
_TILE = 4096


def fits(logits: Tensor) -> bool:
    """Whether one program can take these logits (N, C)."""
    return logits.dim() == 2 and 0 < len(logits) * next_power(logits.shape[1]) <= _MOST


def criterion(logits: Tensor, labels: Tensor, ignore: int, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean cross-entropy, the gradient of the logits, and (loss, 0, right answers, rows that count, 1).

    Args:
        logits: (N, C).
        labels: (N,).
        ignore: The label of rows that do not count.
        smoothing: The share of the uniform distribution in the target.
    """
    logits = logits.contiguous()
    with on(logits.device):
        loss = torch.empty((), dtype=torch.float32, device=logits.device)
        stats = torch.empty(5, dtype=torch.float64, device=logits.device)
        grad = torch.empty_like(logits)
        launch = _criterion(*logits.shape, ignore, smoothing)
        launch(stream_of(logits, aligned(logits, labels)), logits, labels, loss, stats, grad)
    return loss, grad, stats


def tally(total: Tensor, stats: Tensor, goes: Tensor, counter: Tensor, bad: Tensor, sums: Tensor) -> None:
    """Unless ``goes`` is 0: add ``stats`` to ``sums``, and keep the first step with a ``total`` that is not finite."""
    with on(total.device):
        stream = stream_of(total, aligned(total, stats, goes, counter, bad, sums))
        _tally(sums.numel())(stream, total, stats, goes, counter, bad, sums)


@lru_cache(maxsize=64)
def _criterion(rows: int, classes: int, ignore: int, smoothing: float) -> Launch:
    width = next_power(classes)
    height = min(next_power(rows), max(1, _TILE // width))
    return Launch(criterion_kernel, (1,), (rows, classes, ignore, smoothing, height, width))


@lru_cache(maxsize=8)
def _tally(size: int) -> Launch:
    return Launch(tally_kernel, (1,), (size, next_power(size)), 1)
