"""What a training has to itself while others run in the same process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch


class Surroundings:
    """Random numbers, the precision of products and, on a GPU, a stream: as if no other training were there.

    A captured step draws from the state of the generator that it was captured with, so on a GPU every training has a
    state of its own, and not only its numbers.

    Args:
        device: Where the training runs.
        stream: The stream of its GPU; None on a CPU.
    """

    def __init__(self, device: torch.device, stream: torch.cuda.Stream | None = None) -> None:
        self._stream = stream
        self._random, self._precision = torch.get_rng_state(), torch.get_float32_matmul_precision()
        self._device: Any = None
        if device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            self._device = torch.cuda.default_generators[index]
            self._state = self._device.clone_state()

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Enter these surroundings; the former ones are restored at the end."""
        random, precision = torch.get_rng_state(), torch.get_float32_matmul_precision()
        torch.set_rng_state(self._random)
        torch.set_float32_matmul_precision(self._precision)
        outer = None
        if self._device is not None:
            outer = self._device.graphsafe_get_state()
            self._device.graphsafe_set_state(self._state)
        try:
            with torch.cuda.stream(self._stream) if self._stream is not None else nullcontext():
                yield
        finally:
            if self._device is not None:
                self._device.graphsafe_set_state(outer)
            self._random, self._precision = torch.get_rng_state(), torch.get_float32_matmul_precision()
            torch.set_rng_state(random)
            torch.set_float32_matmul_precision(precision)
