"""The four passes over the output of a convolution: how each is divided among programs, prepared once."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from .device import epilogue, statistics
from .launch import Launch, interpreting, multiprocessors
from .layout import SLOTS, layout_of, next_power, programs, sums_size, tiles
from .spec import ACTIVATIONS, ANGULAR, NORMS, Fields

_FEW_TILES = 16  # per program
_WARPS = 32  # warps of such programs that run on one multiprocessor at a time
_MOST_CHANNELS = 8192  # in a tile that holds all channels
_MANY = 2**25  # entries from which a pass is limited by memory, not by its start and end


class Tuning(NamedTuple):
    """How a pass is divided: entries in a tile, at most how many channels, warps, programs per multiprocessor."""

    elements: int
    channels: int
    warps: int
    programs: int


# measured on an H200 in bfloat16; keys: the pass, and whether channels come last
TUNING = {
    ("stats", True): Tuning(4096, 128, 4, 4),
    ("narrow stats", True): Tuning(2048, 64, 2, 8),  # up to 64 channels
    ("reduce", True): Tuning(1024, 128, 2, 8),
    ("narrow reduce", True): Tuning(2048, 64, 8, 8),  # for many positions
    ("apply", True): Tuning(2048, 2048, 4, 32),
    ("grad", True): Tuning(2048, 2048, 4, 8),
    ("wide apply", True): Tuning(2048, 128, 8, 32),  # more than 128 channels, no BatchNorm
    ("wide grad", True): Tuning(2048, 2048, 2, 8),
    ("stats", False): Tuning(4096, 128, 4, 16),
    ("reduce", False): Tuning(2048, 128, 4, 16),
    ("apply", False): Tuning(2048, 1024, 4, 32),
    ("grad", False): Tuning(2048, 1024, 4, 32),
}


def _whole_rows(tuning: Tuning, channels: int) -> Tuning:
    """Tiles that hold all channels of a position, so that sums over positions stay in registers."""
    row = next_power(channels)
    if row <= tuning.elements or row > _MOST_CHANNELS:
        return tuning
    return tuning._replace(elements=row, channels=row, warps=min(32, tuning.warps * row // tuning.elements))


class EpiloguePlan:
    """The four passes over the output y of a convolution, and the sums that they share."""

    def __init__(
        self, f: Fields, shape: torch.Size, last: bool, dtype: torch.dtype, maps: int, device: Any, rate: float = 1.0
    ) -> None:
        layout = layout_of(shape, last)
        self.channels, self.maps = channels, maps = layout.channels, maps
        self.count = layout.images * layout.positions
        half = top = 0.0
        if f.angular == "sigmoid" and f.k is not None:
            half, top = 0.5 / f.k, 1.0 / math.tanh(math.pi / (4 * f.k))
        fast = 2 if dtype != torch.float32 and not interpreting() else 0
        g, act, bn = ANGULAR[f.angular], ACTIVATIONS[f.activation], NORMS[f.norm]
        cl, count, cubed = layout.last, float(self.count), f.is_sphere and (maps > 1 or not f.window.size)
        per_channel_k = f.angular == "sigmoid" and f.k is None

        def cut(name: str, over_channels: bool = False, summing: bool = False) -> tuple[Any, ...]:
            """Grid, numbers, tile and warps of a pass; sums take registers, so each thread has half the entries."""
            tuning = TUNING[name, cl]
            if summing and per_channel_k:
                tuning = tuning._replace(elements=tuning.elements // 2)
            elif summing:
                tuning = tuning._replace(warps=2 * tuning.warps)
            if cl and not over_channels and name != "wide apply":
                tuning = _whole_rows(tuning, layout.channels)
            bl, bc, tile_count = tiles(layout, tuning.elements, tuning.channels)
            chunks = -(-layout.channels // bc) if over_channels else 1
            each = tuning.programs
            if over_channels and tile_count < _FEW_TILES * each * multiprocessors(device.index):
                each = min(each, max(1, _WARPS // tuning.warps))  # all run at once: each has a costly start and end
            if per_channel_k:
                each = min(each, 8)  # each computes the constants of k itself
            grid = (programs(device, tile_count, max(1, each // chunks)), chunks)
            numbers = (tile_count, layout.positions, layout.channels, half, top)
            return grid, numbers, (maps, bl, bc), tuning.warps

        narrow = cl and layout.channels <= 64
        grid, numbers, tile, warps = cut("narrow stats" if narrow else "stats", True)
        self.slots = slots = SLOTS
        self.sums = sums_size(layout.channels)
        self.stats, self.stats_tracking, self.stats_alone = (
            Launch(
                statistics.stats_kernel,
                grid,
                (*numbers, count, f.eps, f.momentum, g, update, finish, slots, cl, fast, *tile),
                warps,
            )
            for update, finish in ((False, True), (True, True), (False, False))
        )
        many = narrow and self.count * layout.channels > _MANY
        grid, numbers, tile, warps = cut("narrow reduce" if many else "reduce", True)
        self.reduce, self.reduce_alone = (
            Launch(
                statistics.reduce_kernel, grid, (*numbers, count, f.leak, g, act, finish, slots, cl, fast, *tile), warps
            )
            for finish in (True, False)
        )
        self.finish, self.finish_tracking, self.finish_backward = (
            Launch(statistics.finish_kernel, (1,), (layout.channels, f.eps, f.momentum, backward, update, slots, 128))
            for backward, update in ((False, False), (False, True), (True, False))
        )
        self.row = [
            Launch(statistics.row_kernel, (-(-channels // 128),), (channels, row * slots * channels, slots, 128))
            for row in range(8)
        ]
        wide = "wide " if cl and layout.channels > 128 and f.norm == "none" else ""
        grid, numbers, tile, warps = cut(f"{wide}apply")
        shared = 0 if per_channel_k else numbers[0]  # each program computes the constants of k itself
        single = tile[2] >= layout.channels
        self.apply = Launch(
            epilogue.apply_kernel,
            grid,
            (*numbers, f.eps, f.leak, g, bn, act, cl, fast, single, *tile),
            warps,
            tiles=shared,
        )
        self.grad, self.grad_together, self.grad_summing = (
            Launch(
                epilogue.grad_kernel,
                grid,
                (
                    *numbers,
                    f.eps,
                    f.leak,
                    rate,
                    g,
                    bn,
                    act,
                    summing,
                    slots,
                    cl,
                    fast,
                    cubed,
                    tile[2] >= channels,
                    *tile,
                ),
                warps,
                tiles=0 if per_channel_k else numbers[0],
            )
            for summing in (0, 1, 2)
            for grid, numbers, tile, warps in [cut(f"{wide}grad", summing=summing > 0)]
        )
