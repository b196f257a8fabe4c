"""Work in parallel with the current stream inside a CUDA graph: patch norms with a convolution, several gradients."""

from __future__ import annotations

import torch


class Branch:
    """Work in parallel with the current stream, inside a CUDA graph that is being captured.

    Launches on ``stream`` run in parallel with those of the current stream until :meth:`join`. Tensors that they
    read or write must be kept alive until then.
    """

    __slots__ = ("main", "side", "stream")

    def __init__(self, device: torch.device) -> None:
        self.main = torch.cuda.current_stream(device)
        if device.index not in _SIDES:
            _SIDES[device.index] = torch.cuda.Stream(device)
        self.side = _SIDES[device.index]
        self.stream = self.side.cuda_stream
        self.side.wait_stream(self.main)

    def join(self) -> None:
        """Make later work on the current stream wait for the branch."""
        self.main.wait_stream(self.side)


_SIDES: dict[int, torch.cuda.Stream] = {}


def branch(device: torch.device, stream: int | None) -> Branch | None:
    """A :class:`Branch` while a graph is being captured, else None, because it would cost more time than it saves."""
    if stream is None or not torch.cuda.is_current_stream_capturing():
        return None
    side = _SIDES.get(device.index)
    return None if side is not None and side.cuda_stream == stream else Branch(device)
