"""How a tensor (N, C, ...) is read by the kernels: images, positions, channels, and tiles of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from .launch import multiprocessors
from .spec import Window

SLOTS = 16  # copies of each row of sums


class Layout(NamedTuple):
    """``images`` × ``positions`` × ``channels``; with channels last all images count as one."""

    images: int
    positions: int
    channels: int
    last: bool


def next_power(n: int) -> int:
    """The smallest power of two that is not less than n."""
    return 1 << max(0, n - 1).bit_length()


def channels_last(x: Tensor) -> bool:
    """Whether the channels of x (N, C, ...) are innermost in memory, and not only because of sizes of 1."""
    if x.dim() == 4:
        return not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)
    if x.dim() == 5:
        return not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last_3d)
    return False


def arranged(x: Tensor, last: bool) -> Tensor:
    """x with channels last in memory or not, as the flag says; copied only if needed."""
    if last and x.dim() == 4:
        return x.contiguous(memory_format=torch.channels_last)
    if last and x.dim() == 5:
        return x.contiguous(memory_format=torch.channels_last_3d)
    return x.contiguous()


def empty(shape: torch.Size, dtype: torch.dtype, device: torch.device, last: bool) -> Tensor:
    """An empty tensor of this shape, with channels last in memory or not, as the flag says."""
    if last and len(shape) > 3:
        wanted = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
        return torch.empty(shape, dtype=dtype, device=device, memory_format=wanted)
    return torch.empty(shape, dtype=dtype, device=device)


def layout_of(shape: torch.Size, last: bool) -> Layout:
    """How kernels read a tensor of this shape; rows of features (N, C) have their channels last."""
    positions = math.prod(shape[2:])
    if last or len(shape) == 2:
        return Layout(1, shape[0] * positions, shape[1], True)
    return Layout(shape[0], positions, shape[1], False)


def tiles(layout: Layout, elements: int, most_channels: int) -> tuple[int, int, int]:
    """(positions of a tile, channels of a tile, number of tiles): about ``elements`` numbers in a tile."""
    if layout.last:
        channels = min(next_power(layout.channels), most_channels)
        positions = min(max(1, elements // channels), next_power(layout.positions))
    else:
        positions = min(next_power(layout.positions), 128)
        channels = min(next_power(layout.channels), max(1, elements // positions))
    return positions, channels, layout.images * -(-layout.positions // positions)


def programs(device: torch.device, count: int, each: int) -> int:
    """How many programs share ``count`` tiles, with at most ``each`` on a multiprocessor."""
    return max(1, min(count, each * multiprocessors(device.index)))


def out_shape(x: tuple[int, ...], w: tuple[int, ...], window: Window) -> tuple[int, ...]:
    """The output shape of a layer with this window, for input shape x and weight shape w."""
    if not window.size:
        return x[0], w[0]
    sizes = []
    for i, size in enumerate(x[2:]):
        reach = window.dilation[i] * (window.size[i] - 1) + 1
        if window.transposed:
            extra = window.output_padding[i] if window.output_padding else 0
            sizes.append((size - 1) * window.stride[i] - 2 * window.padding[i] + reach + extra)
        else:
            sizes.append((size + 2 * window.padding[i] - reach) // window.stride[i] + 1)
    channels = w[1] * window.groups if window.transposed else w[0]
    return (x[0], channels, *sizes)


def sums_size(channels: int) -> int:
    """How many sums a layer has: see device/statistics.py."""
    return 8 * SLOTS * channels + 5
