"""Maps of several layers side by side on a GPU: factorizations are chains of small launches that fill a part of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache

import torch

_MOST = 16


@contextmanager
def side_by_side(count: int, device: torch.device) -> Iterator[Callable[[int], AbstractContextManager[object]]]:
    """Streams for ``count`` pieces of work that do not depend on each other: ``with beside(index): ...``.

    All of them begin after what was queued before, and what follows waits for all. Autograd runs the backward pass of
    a piece on the stream of its forward pass. The same streams serve every time, and each waits for the current one
    first: so what one step frees is never written to before that step has read it.
    """
    if device.type != "cuda" or count < 2:
        yield lambda index: nullcontext()
        return
    streams, current = _streams(device.index or 0, min(count, _MOST)), torch.cuda.current_stream(device)
    for stream in streams:
        stream.wait_stream(current)
    yield lambda index: torch.cuda.stream(streams[index % len(streams)])
    for stream in streams:
        current.wait_stream(stream)


@lru_cache(maxsize=32)
def _streams(index: int, count: int) -> tuple[torch.cuda.Stream, ...]:
    return tuple(torch.cuda.Stream(torch.device("cuda", index)) for _ in range(count))
