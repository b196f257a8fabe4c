"""Read a batch of images with one kernel, where plain operations need about forty."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from .device.batch import batch_kernel
from .launch import Launch, aligned, on, stream_of
from .layout import empty, next_power


class Images(NamedTuple):
    """A set of images on a device, and the epoch that is read from it.

    Attributes:
        images: Bytes (N, C, H, W).
        labels: (N,).
        order: Which image is at each position of the epoch.
        draws: The flips and shifts of the epoch (positions, 4), if there are any: see ``data.Augment``.
        rows: The positions in a batch that belong to this process.
        scale, shift: The normalisation's factor and offset for each channel.
    """

    images: Tensor
    labels: Tensor
    order: Tensor
    draws: Tensor | None
    rows: Tensor
    scale: Tensor
    shift: Tensor


def read_batch(
    s: Images, step: Tensor, batch_size: int, fill: int, ignore: int, dtype: torch.dtype, last: bool
) -> tuple[Tensor, Tensor]:
    """Return the inputs (B, C, H, W) and the labels (B,) of one step.

    Args:
        s: The set.
        step: Number of the batch in the epoch, on the device.
        batch_size: Samples of a batch, over all processes.
        fill: The byte used outside a shifted image.
        ignore: The label of rows that fill up the last batch.
        dtype: The dtype of the inputs.
        last: Whether channels come last in memory.
    """
    shape = torch.Size((len(s.rows), *s.images.shape[1:]))
    launch = _launch(shape, batch_size, len(s.labels), fill, ignore, last)
    with on(s.images.device):
        out = empty(shape, dtype, s.images.device, last)
        labels = torch.empty(len(s.rows), dtype=s.labels.dtype, device=s.images.device)
        stream = stream_of(out, aligned(*s, step))
        launch(stream, s.images, s.labels, s.order, s.draws, s.rows, step, s.scale, s.shift, out, labels)
    return out, labels


@lru_cache(maxsize=256)
def _launch(shape: torch.Size, batch: int, size: int, fill: int, ignore: int, last: bool) -> Launch:
    n, c, h, w = shape
    block = min(1024, next_power(c * h * w))
    return Launch(batch_kernel, (n, -(-c * h * w // block)), (batch, size, c, h, w, float(fill), ignore, last, block))
