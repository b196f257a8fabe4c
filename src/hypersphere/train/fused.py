"""A step whose network is a row of blocks: kernels compute nearly all of it, and a compiler is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from .. import kernels
from ..sources import Source
from .objective import Objective


def rehearse(objective: Objective, source: Source, position: Tensor, half: bool) -> None:
    """Begin to compile all kernels of a step at once, before the first of them has to wait for itself.

    The network runs forward and backward on whatever memory holds. Of its work only the products are done, for which
    cuDNN looks for its fastest algorithms meanwhile. The gradients are worthless.

    Args:
        objective: The network, for which :func:`~hypersphere.train.parts.is_fused` holds.
        source: The data.
        position: Number of a batch.
        half: Whether the network runs in bfloat16.
    """
    kept = [(buffer, buffer.clone()) for buffer in objective.buffers()]
    with kernels.rehearsed(), side_stream(True), torch.random.fork_rng([position.device]):
        inputs, labels = source.batch(position)
        with torch.autocast("cuda", torch.bfloat16, enabled=half, cache_enabled=False):
            logits = objective.model(*inputs)
            found = objective.counted(logits, labels)
        if found is None:
            logits.sum().backward()
        else:
            found[0].backward()
            tally(found[0].detach(), found[1], position, position, position.clone(), found[1].clone())
    for buffer, before in kept:  # a module that ran by itself has seen what memory held
        buffer.copy_(before)


def tally(total: Tensor, stats: Tensor, goes: Tensor, counter: Tensor, bad: Tensor, sums: Tensor) -> None:
    """Add the numbers of an update that counts, and keep the first step whose loss is not finite."""
    if kernels.usable(total, "loader"):
        kernels.criterion.tally(total, stats, goes, counter, bad, sums)  # one kernel of ten
        return
    sums.add_(torch.where(goes > 0, stats, 0.0))
    bad.copy_(torch.where(torch.isfinite(total) | (bad >= 0) | (goes == 0), bad, counter))


@contextmanager
def side_stream(active: bool) -> Iterator[None]:
    """Work beside the default stream, as captures ask for of warm-up steps."""
    if not active:
        yield
        return
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        yield
    torch.cuda.current_stream().wait_stream(side)
