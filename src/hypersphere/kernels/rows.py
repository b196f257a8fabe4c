"""Lengths and directions of the rows of a matrix, and launches that are kept from their first call on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .device import rows as device
from .launch import Launch, aligned, on, stream_of

_MOST = 1 << 12
_PREPARED: dict[tuple[Any, ...], Launch] = {}


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, warps: int = 4, stages: int = 3) -> None:
    """Launch a kernel on tensors, then numbers and constants; an empty grid does nothing.

    The launch is prepared for these numbers and kept, so that later ones cost the host a few microseconds.
    """
    if grid[0] == 0:
        return
    count = 0
    while isinstance(arguments[count], Tensor):
        count += 1
    tensors, tail = arguments[:count], arguments[count:]
    key = (id(kernel), grid, tail, warps, stages)
    prepared = _PREPARED.get(key)
    if prepared is None:
        if len(_PREPARED) >= _MOST:
            _PREPARED.clear()
        prepared = _PREPARED[key] = Launch(kernel, grid, tail, warps, stages)
    first = tensors[0]
    with on(first.device):
        prepared(stream_of(first, aligned(*tensors)), *tensors)


def row_tile(d: int) -> tuple[int, int]:
    """The number of rows for one program, and their length rounded up to a power of two."""
    wide = 1 << (d - 1).bit_length()
    return max(1, 2048 // wide), wide


def row_grid(rows: int, d: int) -> tuple[tuple[int, ...]]:
    """The grid of a kernel over rows, to be unpacked after the kernel argument of :func:`launch`."""
    return ((-(-rows // row_tile(d)[0]),),)


def polar(x: Tensor) -> tuple[Tensor, Tensor]:
    """(x/‖x‖, ‖x‖) of the rows of a contiguous float32 matrix."""
    rows, d = x.shape
    direction, length = torch.empty_like(x), x.new_empty(rows)
    launch(device.polar_kernel, *row_grid(rows, d), x, direction, length, rows, d, *row_tile(d))
    return direction, length


def polar_backward(direction: Tensor, length: Tensor, d_direction: Tensor, d_length: Tensor) -> Tensor:
    """The gradient of x from those of its direction and length."""
    rows, d = direction.shape
    out = torch.empty_like(direction)
    tensors = (direction, length, d_direction.contiguous(), d_length.contiguous(), out)
    launch(device.polar_backward_kernel, *row_grid(rows, d), *tensors, rows, d, *row_tile(d))
    return out


def unit(w: Tensor, out: Tensor, normalize: bool) -> None:
    """Rows of w, or their directions, in the dtype of ``out``; zeros in further rows of ``out``."""
    d, padded = w.shape[1], out.shape[0]
    launch(device.unit_kernel, *row_grid(padded, d), w, out, w.shape[0], padded, d, *row_tile(d), normalize)


def tangent(d_unit: Tensor, w: Tensor, out: Tensor) -> None:
    """The gradient of w in ``out``, from that of its rows' directions."""
    rows, d = w.shape
    launch(device.tangent_kernel, *row_grid(rows, d), d_unit, w, out, rows, d, *row_tile(d))
