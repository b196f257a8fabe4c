"""A CUDA graph of the matrices that start from the last step, and how none of its failures goes unnoticed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ._blocks import block_matrices
from ._peers import Peers


class Recorded:
    """The graph that :func:`record` returns, and its flag: 1 if a matrix did not reach its accuracy.

    The flag stays 1, on the device and in its copy on the host, until :meth:`settle` has computed what failed from
    scratch. So a program can use the matrices in two ways, and is never silently wrong:

    - It calls :meth:`settle` after every replay, which waits for the device, and then replays the graph that uses them.
    - It waits for nothing. The graph that uses the matrices reads ``failed`` on the device and changes nothing if it
      is 1. Later the host sees that in :meth:`found`, calls :meth:`settle`, and replays that graph alone: the same
      step again, with exact matrices.

    Args:
        graph: The CUDA graph that computes the matrices.
        groups: The groups of matrices that it computes.
        failed: The flag on the device, a float32 scalar.
        flag: Its copy on the host, in pinned memory, which the graph writes.

    Example:
        >>> model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
        >>> hs.orthogonal.record(model) is None  # on a CPU there is nothing to record
        True
    """

    def __init__(self, graph: torch.cuda.CUDAGraph, groups: list[Peers], failed: Tensor, flag: Tensor) -> None:
        self._graph, self._groups, self.failed, self._flag = graph, groups, failed, flag
        self._event: torch.cuda.Event | None = None

    def pool(self) -> Any:
        """Return the memory pool, which the graph that uses the matrices must share.

        Returns:
            What :class:`torch.cuda.graph` takes as ``pool``.
        """
        return self._graph.pool()

    def replay(self) -> None:
        """Compute the matrices on the current stream."""
        self._graph.replay()
        if self._event is None:
            self._event = torch.cuda.Event()
            self._event.record()

    def found(self, wait: bool = False) -> bool:
        """Say whether one of the replays that the device has finished so far failed.

        Args:
            wait: first wait until the device has finished everything that is queued.

        Returns:
            True if one failed since the last :meth:`settle`.
        """
        if wait:
            torch.cuda.current_stream(self.failed.device).synchronize()
        elif self._event is None or not self._event.query():
            return False
        self._event = None  # the next replay has one of its own
        return bool(self._flag)

    def settle(self) -> bool:
        """Wait for the device, and compute the matrices that failed from scratch (a jump, a singular U).

        Returns:
            True if any matrix had failed.
        """
        if not self.found(wait=True):
            return False
        for peers in self._groups:
            peers.settle()
        self.failed.zero_()
        self._flag.zero_()
        return True


def record(model: nn.Module, stream: torch.cuda.Stream | None = None) -> Recorded | None:
    """Record a CUDA graph that computes all matrices that start from the last step.

    A second graph, recorded afterwards in the same memory pool, uses the matrices; see :class:`Recorded`.

    Args:
        model: a network, with attached weights or not.
        stream: the stream to record on; None uses torch's own stream for recording.

    Returns:
        The graph with its flag, or None if the model has no such matrices.

    Example:
        >>> hs.orthogonal.record(nn.Linear(2, 2)) is None
        True
    """
    joint = [blocks.peers for blocks in block_matrices(model) if blocks.is_joint]
    groups = [peers for peers in dict.fromkeys(joint) if peers.can_be_recorded]
    if not groups:
        return None
    graph, flag = torch.cuda.CUDAGraph(), torch.zeros((), device="cpu", pin_memory=True)
    with torch.cuda.graph(graph, stream=stream):
        flags = [peers.record() for peers in groups]
        failed = torch.stack([one.to(flags[0].device) for one in flags]).amax().float()
        flag.copy_(failed, non_blocking=True)
    return Recorded(graph, groups, failed, flag)
