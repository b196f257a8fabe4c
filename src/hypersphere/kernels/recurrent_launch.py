"""The tiles of recurrent kernels, and launching the steps of a sequence with little Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .launch import LAUNCHES, runner
from .layout import next_power

_TILE_BYTES = 1 << 15  # of one stage; shared memory holds two
_COMPILED: dict[Any, Any] = {}


class Tile(NamedTuple):
    """Rows of the batch and units of the state for one program, how deep it reads at a time, and compile options."""

    rows: int
    units: int
    depth: int
    warps: int
    stages: int


def tile_for(batch: int, units: int, gates: int, dtype: torch.dtype, how: str) -> Tile:
    """Small tiles, so that many multiprocessors share a step; larger ones where there is enough work for all."""
    rows = columns = 16
    while rows < 64 and -(-batch // rows) * -(-units // columns) > 256:
        rows *= 2
    if -(-batch // rows) * -(-units // columns) > 256:
        columns = 32
    depth = max(16, min(64 if how == "ieee" else 256, next_power(units)))
    while depth > 16 and gates * (rows + columns) * depth * dtype.itemsize > _TILE_BYTES:
        depth //= 2
    warps = 8 if columns == 32 else 2 if rows == 16 and how != "ieee" else 4
    return Tile(rows, columns, depth, warps, 3)


def precision(x: Tensor) -> str:
    """How products of tensors like x are computed: float32 follows torch's setting, by default without tensor cores."""
    if not x.is_cuda or (x.dtype == torch.float32 and torch.backends.cuda.matmul.fp32_precision != "tf32"):
        return "ieee"
    return "tf32"


class Launches:
    """Launches of one kernel on the same tensors that differ only in a few integers.

    The first one compiles. The others bypass Triton's own handling of arguments, which takes longer than a step.
    """

    def __init__(
        self, kernel: Any, tensors: Sequence[Tensor | None], tail: tuple[Any, ...], tile: Tile, parts: int
    ) -> None:
        self.kernel, self.tensors, self.tail, self.tile, self.parts = kernel, tensors, tail, tile, parts
        self.stream: int | None = None
        self.runners: dict[int, Any] = {}
        given = [tensor for tensor in tensors if tensor is not None]
        if not given[0].is_cuda:
            self.key = None
            return
        self.stream = torch.cuda.current_stream(given[0].device).cuda_stream
        self.pointers = [None if tensor is None else tensor.data_ptr() for tensor in tensors]
        kinds = [None if tensor is None else (tensor.dtype, tensor.data_ptr() & 15 == 0) for tensor in tensors]
        self.key = (kernel, *kinds, *tail, tile, given[0].device.index)

    def __call__(self, size: int, *numbers: int) -> None:
        """Launch for ``size`` rows, with these integers after the tensors."""
        run = self.runners.get(size)
        if run is not None:
            run(self.stream, *self.pointers, *numbers)
            return
        name, grid = self.kernel.fn.__name__, (-(-size // self.tile.rows), self.parts, 1)
        compiled = _COMPILED.get(self.key)
        if compiled is not None:
            self.runners[size] = runner(name, compiled, grid, self.tail)
            self.runners[size](self.stream, *self.pointers, *numbers)
            return
        LAUNCHES[name] += 1
        options = {"num_warps": self.tile.warps, "num_stages": self.tile.stages}
        compiled = self.kernel[grid](*self.tensors, *numbers, *self.tail, **options)
        if self.key is not None:
            _COMPILED[self.key] = compiled
