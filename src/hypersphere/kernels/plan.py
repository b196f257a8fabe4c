"""Every launch of a fused layer for one shape, prepared once."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .device import epilogue, magnitude, norms, statistics, weights
from .launch import Launch, interpreting, multiprocessors
from .layout import SLOTS, Layout, channels_last, layout_of, next_power, out_shape, programs, sums_size, tiles
from .spec import ACTIVATIONS, ANGULAR, MAGNITUDES, NORMS, Fields, Spec

_BLOCK = 256
_TILE = 1024  # entries that a program sums in maps with many channels, at most _COLUMNS channels at a time
_COLUMNS = 128
_LARGE_WINDOW = 16
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

    def __init__(self, f: Fields, shape: torch.Size, last: bool, dtype: torch.dtype, maps: int, device: Any) -> None:
        layout = layout_of(shape, last)
        self.channels, self.maps = layout.channels, maps
        self.count = layout.images * layout.positions
        half = top = 0.0
        if f.angular == "sigmoid" and f.k is not None:
            half, top = 0.5 / f.k, 1.0 / math.tanh(math.pi / (4 * f.k))
        fast = 2 if dtype != torch.float32 and not interpreting() else 0
        g, act, bn = ANGULAR[f.angular], ACTIVATIONS[f.activation], NORMS[f.norm]
        cl, count = layout.last, float(self.count)
        per_channel_k = f.angular == "sigmoid" and f.k is None

        def cut(name: str, over_channels: bool = False, summing: bool = False) -> tuple[Any, ...]:
            """Grid, numbers, tile and warps of a pass; sums take registers, so each thread has half the entries."""
            tuning = TUNING[name, cl]
            if summing and per_channel_k:
                tuning = tuning._replace(elements=tuning.elements // 2)
            elif summing:
                tuning = tuning._replace(warps=2 * tuning.warps)
            if cl and not over_channels:
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
        grid, numbers, tile, warps = cut("apply")
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
                (*numbers, f.eps, f.leak, g, bn, act, summing, slots, cl, fast, tile[2] >= layout.channels, *tile),
                warps,
                tiles=0 if per_channel_k else numbers[0],
            )
            for summing in (0, 1, 2)
            for grid, numbers, tile, warps in [cut("grad", summing=summing > 0)]
        )


class Plan:
    """Shapes and launches of a layer for inputs of one shape, dtype and layout."""

    def __init__(self, f: Fields, x: Tensor, w: Tensor, dtype: torch.dtype, last: bool) -> None:
        window = f.window
        device = x.device
        self.last, self.window = last, window
        self.begun: set[tuple[bool, ...]] = set()  # what was compiled ahead, by what the calls wanted
        self.linear = not window.size
        self.groups = window.groups
        self.out_shape = torch.Size(out_shape(tuple(x.shape), tuple(w.shape), window))
        self.input = layout_of(x.shape, last)
        self.output = layout_of(self.out_shape, last)
        self.map_shape = torch.Size((x.shape[0], self.groups, *self.out_shape[2:]))
        self.q_shape = torch.Size((x.shape[0], self.groups, *x.shape[2:]))
        self.epilogue = EpiloguePlan(f, self.out_shape, last, dtype, self.groups, device)
        self._weights(f, w, dtype, last)
        self._norms(f, device)

    def _weights(self, f: Fields, w: Tensor, dtype: torch.dtype, last: bool) -> None:
        transposed = f.window.transposed
        fan = w[0].numel() if not transposed else w[:, 0].numel() // f.window.groups
        self.shift = 2.0 ** math.ceil(math.log2(fan) / 2) if dtype == torch.float16 and f.unit else 1.0
        self.unit: Launch | None = None
        self.weight_last = channels_last(w)
        self.weight_moves = last and not self.weight_last and w.dim() > 2 and math.prod(w.shape[2:]) > 1
        if not f.unit or transposed:
            return
        size = (fan, w.shape[1], fan // w.shape[1])
        block = min(2048, next_power(fan))
        zeros = self.epilogue.sums
        self.unit = Launch(
            weights.unit_kernel,
            (w.shape[0],),
            (*size, zeros, 1.0 / self.shift, self.weight_moves, block, 64),
        )
        self.unit_backward = Launch(
            weights.unit_backward_kernel, (w.shape[0],), (*size, 1.0 / self.shift, self.weight_moves, block)
        )

    def _norms(self, f: Fields, device: Any) -> None:
        layout, groups, last = self.input, self.groups, self.input.last
        width = layout.channels // groups
        self.depthwise = groups > 1 and width == 1
        if not self.depthwise:
            inner = Layout(layout.images, layout.positions, width, layout.last)
            bl, bc, count = tiles(inner, 2048, 1024)
            self.squares = Launch(
                norms.squares_kernel, (count, groups), (layout.positions, layout.channels, groups, last, bl, bc)
            )
        bl, bc, count = tiles(layout, 4096, 1024)
        numbers = (layout.positions, layout.channels)
        self.add = Launch(norms.add_input_kernel, (count,), (*numbers, groups, last, bl, bc))
        post = 2 if f.is_sphere else 3
        self.box = self._box(f, False, 1 if self.depthwise else 0, post, self.shift)
        pre, post = 2 if f.is_sphere else 0, 4 if self.depthwise else 0
        self.spread = self._box(f, True, pre, post, 1.0 / (self.shift * self.shift))
        if not f.is_sphere:
            total = math.prod(self.map_shape)
            h, ratio = MAGNITUDES[f.magnitude], f.angular == "cosine"
            fixed = 1.0 if f.rho is None else f.rho
            grid = (-(-total // _BLOCK),)
            self.magnitude, self.magnitude_tracking = (
                Launch(
                    magnitude.magnitude_kernel,
                    grid,
                    (
                        total,
                        float(total),
                        fixed,
                        f.alpha,
                        f.beta,
                        self.shift,
                        f.running_momentum,
                        h,
                        ratio,
                        f.running,
                        f.training,
                        update,
                        _BLOCK,
                    ),
                )
                for update in (False, True)
            )
            self.magnitude_backward = Launch(
                magnitude.magnitude_backward_kernel, grid, (total, f.alpha, f.beta, self.shift, h, ratio, _BLOCK)
            )

    def _box(self, f: Fields, backward: bool, pre: int, post: int, scale: float) -> Any:
        """The sum over the window, from inputs to outputs, or its transpose, from outputs to inputs.

        A large window is summed along its last axis first: 7 + 7 terms instead of 49.
        """
        window = f.window
        missing = (1,) * (3 - len(window.size))
        source, target = self.q_shape[2:], self.map_shape[2:]
        if backward:
            source, target = target, source
        source, target, size = missing + source, missing + target, missing + window.size
        if math.prod(size) < _LARGE_WINDOW or math.prod(size[:2]) == 1:
            return self._sum(f, backward, source, target, (0, 1, 2), pre, post, scale)
        between = (*source[:2], target[2])
        along = self._sum(f, backward, source, between, (2,), pre, 0, scale)
        across = self._sum(f, backward, between, target, (0, 1), 0, post, scale)
        return TwoSums(along, across, self.q_shape[0] * self.groups * math.prod(between))

    def _sum(
        self,
        f: Fields,
        backward: bool,
        source: tuple[int, ...],
        target: tuple[int, ...],
        axes: tuple[int, ...],
        pre: int,
        post: int,
        scale: float,
    ) -> Launch:
        """The sum over the window along some of three axes; the others stay as they are."""
        window = f.window
        missing = 3 - len(window.size)

        def along(values: tuple[int, ...], none: int) -> tuple[int, ...]:
            return tuple(v if i in axes else none for i, v in enumerate((none,) * missing + values))

        size, stride, dilation = (along(v, 1) for v in (window.size, window.stride, window.dilation))
        padding = along(window.padding, 0)
        columns = 0
        if self.input.last and self.groups > 1:  # the power of two that divides the groups, but at least 16
            columns = min(next_power(self.groups), max(16, min(self.groups & -self.groups, _COLUMNS)))
        images = self.q_shape[0] * (1 if columns else self.groups)
        total = images * math.prod(target)
        most = max(total, images * math.prod(source)) * (self.groups if columns else 1)
        numbers = (total, self.groups, *source, *target, *stride, *padding, *dilation, scale)
        block = _TILE // columns if columns else _BLOCK
        constants = (*size, window.transposed != backward, pre, post, most + _TILE >= 2**31, block, columns)
        grid = (-(-total // block), -(-self.groups // columns) if columns else 1)
        return Launch(norms.box_kernel, grid, (*numbers, *constants))


class TwoSums:
    """A sum over a window, first along one axis, then across it."""

    __slots__ = ("across", "along", "between")

    def __init__(self, along: Launch, across: Launch, between: int) -> None:
        self.along, self.across, self.between = along, across, between

    def __call__(self, stream: int | None, src: Tensor, also: Any, dst: Tensor, sums: Any, x: Any) -> Tensor:
        """Run both launches; keep the returned buffer alive while the stream may read it."""
        partial = torch.empty(self.between, dtype=torch.float32, device=dst.device)
        self.along(stream, src, also, partial, None, None)
        self.across(stream, partial, None, dst, sums, x)
        return partial


def plan_for(spec: Spec, x: Tensor, w: Tensor, last: bool) -> Plan:
    """The plan of x and w, made at the first call."""
    key = (x.shape, w.shape, x.dtype, w.dtype, last, channels_last(w), x.device, interpreting())
    plan: Plan | None = spec.plans.get(key)
    if plan is None:
        plan = spec.plans[key] = Plan(spec.fields, x, w, x.dtype, last)
    return plan
