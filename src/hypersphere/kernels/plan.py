"""Every launch of a fused layer for one shape, prepared once."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .device import magnitude, norms, weights
from .launch import Launch, interpreting
from .layout import Layout, arranged, channels_last, empty, layout_of, next_power, out_shape, tiles
from .memory import Pieces, kept_pieces
from .passes import EpiloguePlan
from .spec import MAGNITUDES, Fields, Spec

_BLOCK = 256
_TILE = 1024  # entries that a program sums in maps with many channels, at most _COLUMNS channels at a time
_COLUMNS = 128
_LARGE_WINDOW = 16


class Plan:
    """Shapes and launches of a layer for inputs of one shape, dtype and layout."""

    def __init__(self, f: Fields, x: Tensor, w: Tensor) -> None:
        window = f.window
        self.device, self.index = x.device, x.get_device()
        self.last = last = channels_last(x) or (x.dim() in (4, 5) and channels_last(w))  # as cuDNN decides it, too
        self.norm, self.is_sphere, self.is_train = f.norm, f.is_sphere, f.norm == "train"
        self.counts = f.running and f.training
        self.linear = not window.size
        self.direct = self.linear and f.is_sphere  # no window: r and the gradient of q take no launch of their own
        outer = window.output_padding or (0,) * len(window.size)
        self.convolution = (window.stride, window.padding, window.dilation, window.transposed, outer, window.groups)
        self.groups = window.groups
        self.out_shape = torch.Size(out_shape(tuple(x.shape), tuple(w.shape), window))
        self.input = layout_of(x.shape, last)
        self.output = layout_of(self.out_shape, last)
        self.map_shape = torch.Size((x.shape[0], self.groups, *self.out_shape[2:]))
        self.q_shape = torch.Size((x.shape[0], self.groups, *x.shape[2:]))
        fan = w[0].numel() if not window.transposed else w[:, 0].numel() // window.groups
        self.shift = 2.0 ** math.ceil(math.log2(fan) / 2) if x.dtype == torch.float16 else 1.0
        rate = -0.5 / (self.shift * self.shift)
        self.epilogue = EpiloguePlan(f, self.out_shape, last, x.dtype, self.groups, self.device, rate)
        self._weights(f, w, fan, last)
        self._norms(f, self.device)
        self._memory(f, x, w)

    def _memory(self, f: Fields, x: Tensor, w: Tensor) -> None:
        """How everything is laid out: tensors, and the buffers of small things."""

        def strides(shape: torch.Size, last: bool) -> tuple[int, ...]:
            return empty(shape, torch.float32, torch.device("meta"), last).stride()

        self.dense = arranged(x, self.last) is x and (self.unit is None or self.weight_last or w.is_contiguous())
        self.y_stride = strides(self.out_shape, self.last)
        self.q_stride = strides(self.q_shape, self.last and self.groups > 1)
        self.given_shape = torch.Size((x.shape[0], 1, *self.out_shape[2:]))
        self.given_stride = strides(self.given_shape, False)
        self.unit_shape, self.unit_stride = w.shape, strides(w.shape, self.weight_last or self.weight_moves)
        self.per_channel = self.groups not in (1, self.epilogue.channels)
        channels, maps = self.epilogue.channels, math.prod(self.map_shape)
        other = 0 if self.is_sphere else maps
        self.kept = kept_pieces(f, self.out_shape)
        self.offsets = [0, 8 * (self.epilogue.sums - 4), *self.kept.offsets[1:]]
        self.like = torch.empty(0, dtype=torch.float32, device=self.device)  # new buffers are like it
        source = 0 if self.depthwise else math.prod(self.q_shape)
        self.scratch = {given: Pieces(0 if given else source, self.box.between) for given in (True, False)}
        mine = 0 if self.per_channel or self.direct else maps
        self.back = Pieces(
            2 * channels if self.is_train else 0,
            mine,
            mine if other and f.angular != "cosine" else 0,
            other,
            self.spread.between,
        )

    def views(self, memory: Tensor) -> tuple[Any, ...]:
        """What the kept buffer holds: sums, their part from Σ n on, table, 1/‖w‖, r, s, norms, radius."""
        first, *others = self.kept.views(memory)
        sums = first.view(torch.float64)
        return sums, sums[-4:], *others

    def at(self, address: int) -> list[Any]:
        """The addresses of the same."""
        return [None if offset is None else address + offset for offset in self.offsets]

    def rows(self, sums: Tensor) -> Tensor:
        """The eight rows of sums, each added up over its copies."""
        e = self.epilogue
        return sums[: 8 * e.slots * e.channels].view(8, e.slots, e.channels).sum(1)

    def _weights(self, f: Fields, w: Tensor, fan: int, last: bool) -> None:
        self.unit: Launch | None = None
        self.unit_backward: Any = None
        self.weight_last = channels_last(w)
        self.weight_moves = last and not self.weight_last and w.dim() > 2 and math.prod(w.shape[2:]) > 1
        if f.window.transposed:
            return
        size = (fan, w.shape[1], fan // w.shape[1])
        block = min(2048, next_power(fan))
        zeros, rows = self.epilogue.sums, self.map_shape[0] if self.direct else 0
        self.unit = Launch(
            weights.unit_kernel,
            (w.shape[0],),
            (*size, zeros, rows, 1.0 / self.shift, self.shift, self.weight_moves, block, 64),
        )
        self.unit_backward = Launch(
            weights.unit_backward_kernel, (w.shape[0],), (*size, 1.0 / self.shift, self.weight_moves, block)
        )

    def _norms(self, f: Fields, device: Any) -> None:
        layout, groups, last = self.input, self.groups, self.input.last
        width = layout.channels // groups
        self.depthwise = groups > 1 and width == 1
        self.squares: Any = None
        self.magnitude: Any = None
        self.magnitude_tracking: Any = None
        self.magnitude_backward: Any = None
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
        pre, post = (5 if groups > 1 else 2) if f.is_sphere else 0, 4 if self.depthwise else 0
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

    def _box(self, f: Fields, backward: bool, pre: int, post: int, scale: float) -> Sum:
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
            return Sum(self._sum(f, backward, source, target, (0, 1, 2), pre, post, scale))
        between = (*source[:2], target[2])
        along = self._sum(f, backward, source, between, (2,), pre, 0, scale)
        across = self._sum(f, backward, between, target, (0, 1), 0, post, scale)
        return Sum(along, across, self.q_shape[0] * self.groups * math.prod(between))

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


class Sum(NamedTuple):
    """A sum over a window in one launch, or first along one axis and then across it, with ``between`` sums between."""

    along: Launch
    across: Launch | None = None
    between: int = 0

    def __call__(self, stream: int | None, src: Any, also: Any, dst: Any, sums: Any, x: Any, *between: Any) -> Any:
        """Launch, as a :class:`Launch` does; a sum in two steps has a last argument, what is between them."""
        if self.across is None:
            return self.along(stream, src, also, dst, sums, x)
        along = self.along(stream, src, also, *between, None, None)
        across = self.across(stream, *between, None, dst, sums, x)
        if along is None:
            return None

        def run(stream: int, src: Any, also: Any, dst: Any, sums: Any, x: Any, between: Any) -> None:
            along(stream, src, also, between, None, None)
            across(stream, between, None, dst, sums, x)

        return run


def plan_for(spec: Spec, x: Tensor, w: Tensor) -> Plan:
    """The plan of x and w, made at the first call."""
    key = (x.shape, x.stride(), w.shape, w.stride(), x.dtype, w.dtype, x.get_device(), interpreting())
    plan: Plan | None = spec.plans.get(key)
    if plan is None:
        plan = spec.plans[key] = Plan(spec.fields, x, w)
    return plan
