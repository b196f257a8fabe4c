"""Max pooling by kernels, forward and backward, as functions of tensors without autograd."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from .device import pool as device
from .launch import Launch, aligned, interpreting, on, stream_of
from .layout import arranged, channels_last, empty, next_power


class Pooling(NamedTuple):
    """Kernel, stride and padding of a two-dimensional max pooling."""

    size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]


def forward(x: Tensor, pooling: Pooling, keep: bool, give_q: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return z (N, C, ...), Σ_c z² if ``give_q``, and the place of each maximum in its window if ``keep``."""
    last = channels_last(x)
    x = arranged(x, last)
    run, _, shape = _launches(x.shape, last, pooling, x.device, x.dtype, interpreting())
    with on(x.device):
        z = empty(shape, x.dtype, x.device, last)
        chosen = empty(shape, torch.uint8, x.device, last) if keep else None
        q = torch.empty((shape[0], 1, *shape[2:]), dtype=torch.float32, device=x.device) if give_q else None
        run(stream_of(x, aligned(x)), x, z, chosen, q)
    return z, q, chosen


def backward(
    dz: Tensor | None, dq: Tensor | None, z: Tensor, chosen: Tensor, shape: torch.Size, pooling: Pooling
) -> Tensor:
    """The gradient of x, whose shape is given."""
    last = channels_last(z) or channels_last(chosen)
    _, run, _ = _launches(shape, last, pooling, z.device, z.dtype, interpreting())
    with on(z.device):
        dz = torch.zeros_like(z) if dz is None else arranged(dz, last)
        dx = empty(shape, z.dtype, z.device, last)
        run(stream_of(z, aligned(dz, dq, z)), dz, dq, z if dq is not None else None, chosen, dx)
    return dx


@lru_cache(maxsize=1024)
def _launches(
    shape: torch.Size, last: bool, p: Pooling, device_: torch.device, dtype: torch.dtype, _: bool
) -> tuple[Launch, Launch, torch.Size]:
    n, c, h, w = shape
    oh, ow = ((v + 2 * pad - k) // s + 1 for v, k, s, pad in zip((h, w), *p, strict=True))
    bc = min(next_power(c), 256) if last else min(next_power(c), 16)
    bl = max(1, 2048 // bc)
    wide = max(n * c * h * w, n * c * oh * ow) + 2048 >= 2**31
    outputs = -(-n * oh * ow // bl)
    numbers = (c, h, w, oh, ow, *p.stride, *p.padding)
    there = Launch(device.pool_kernel, (outputs,), (n * oh * ow, *numbers, *p.size, last, wide, bl, bc))
    if p.size == p.stride and p.padding == (0, 0) and (oh * p.size[0], ow * p.size[1]) == (h, w):
        side_by_side = (n * oh * ow, *numbers[:5], *p.size, last, wide, bl, bc)
        return there, Launch(device.pool_spread_kernel, (outputs,), side_by_side), torch.Size((n, c, oh, ow))
    reach = tuple(-(-k // s) for k, s in zip(p.size, p.stride, strict=True))
    tail = (n * h * w, *numbers, *p.size, *reach, last, wide, bl, bc)
    return there, Launch(device.pool_backward_kernel, (-(-n * h * w // bl),), tail), torch.Size((n, c, oh, ow))
