"""Max pooling by kernels, forward and backward, as functions of tensors without autograd."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .device import pool as device
from .launch import Launch, interpreting, is_elsewhere, stream_for
from .layout import arranged, channels_last, empty, next_power


class Pooling(NamedTuple):
    """Kernel, stride and padding of a two-dimensional max pooling."""

    size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]


def forward(x: Tensor, pooling: Pooling, keep: bool, give_q: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return z (N, C, ...), Σ_c z² if ``give_q``, and the place of each maximum in its window if ``keep``."""
    last, index = channels_last(x), x.get_device()
    if is_elsewhere(index):
        with torch.cuda.device(index):
            return forward(x, pooling, keep, give_q)
    x = arranged(x, last)
    run, _, shape, stride, map_stride = _launches(x.shape, last, pooling, index, interpreting())
    z = x.new_empty_strided(shape, stride)
    chosen = torch.empty_like(z, dtype=torch.uint8) if keep else None
    q = None
    if give_q:
        q = x.new_empty_strided((shape[0], 1, *shape[2:]), map_stride, dtype=torch.float32)
    run(stream_for(index, [x.data_ptr()]), x, z, chosen, q)
    return z, q, chosen


def backward(
    dz: Tensor | None, dq: Tensor | None, z: Tensor, chosen: Tensor, shape: torch.Size, pooling: Pooling
) -> Tensor:
    """The gradient of x, whose shape is given."""
    last, index = channels_last(chosen), z.get_device()
    if is_elsewhere(index):
        with torch.cuda.device(index):
            return backward(dz, dq, z, chosen, shape, pooling)
    _, run, *_ = _launches(shape, last, pooling, index, interpreting())
    dz = torch.zeros_like(z) if dz is None else arranged(dz, last)
    dx = empty(shape, z.dtype, z.device, last)
    given = (dz, dq, z if dq is not None else None, chosen)
    run(stream_for(index, [None if v is None else v.data_ptr() for v in given]), *given, dx)
    return dx


@lru_cache(maxsize=1024)
def _launches(shape: torch.Size, last: bool, p: Pooling, *_: Any) -> tuple[Any, ...]:
    """Launches forward and backward on a device; shape and strides of the output, and strides of its map."""
    n, c, h, w = shape
    oh, ow = ((v + 2 * pad - k) // s + 1 for v, k, s, pad in zip((h, w), *p, strict=True))
    bc = min(next_power(c), 256) if last else min(next_power(c), 16)
    bl = max(1, 2048 // bc)
    wide = max(n * c * h * w, n * c * oh * ow) + 2048 >= 2**31
    outputs = -(-n * oh * ow // bl)
    numbers = (c, h, w, oh, ow, *p.stride, *p.padding)
    out = torch.Size((n, c, oh, ow))
    made = empty(out, torch.uint8, torch.device("meta"), last).stride()
    laid = (out, made, (oh * ow, oh * ow, ow, 1))
    there = Launch(device.pool_kernel, (outputs,), (n * oh * ow, *numbers, *p.size, last, wide, bl, bc))
    if p.size == p.stride and p.padding == (0, 0) and (oh * p.size[0], ow * p.size[1]) == (h, w):
        side_by_side = (n * oh * ow, *numbers[:5], *p.size, last, wide, bl, bc)
        return there, Launch(device.pool_spread_kernel, (outputs,), side_by_side), *laid
    reach = tuple(-(-k // s) for k, s in zip(p.size, p.stride, strict=True))
    tail = (n * h * w, *numbers, *p.size, *reach, last, wide, bl, bc)
    return there, Launch(device.pool_backward_kernel, (-(-n * h * w // bl),), tail), *laid
