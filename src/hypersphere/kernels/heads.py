"""A head's pass over its classes on a GPU: blocks of class vectors, three products a block, nothing of size N × C.

    forward    ŵ of a block, x·ŵ with Σ e^u as its epilogue
    backward   ŵ again (kept if one block holds all classes), x·ŵ with the gradient of z as its epilogue,
               dx += G·ŵ and dŵ = Gᵀ·x by the library's products, dw from dŵ

In half precision the products have bfloat16 operands and float32 sums; in float32, operands split in three TF32 parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from .device import heads as device
from .launch import LAUNCHES, interpreting

__all__ = ["Inputs", "Pass", "Rule", "backward", "forward", "polar", "polar_backward"]

KINDS = ("cosine", "linear", "sigmoid", "square_cosine", "fraction", "curricular", "binary")
BLOCK = 1 << 25  # logits of a block


@dataclass(frozen=True)
class Rule:
    """f of u = a·f(z) + b (:mod:`.device.heads`) and its numbers.

    Args:
        kind: One of :data:`KINDS`.
        numbers: p0 to p2: 1/2k and 1/tanh(π/4k) of the sigmoid; 1/m of the fraction; r, m and t of the binary rule.
        normalize: Whether only the directions of the class vectors count.
        sub_centers: Vectors of a class.
    """

    kind: str
    numbers: tuple[float, float, float] = (0.0, 0.0, 0.0)
    normalize: bool = True
    sub_centers: int = 1


class Inputs(NamedTuple):
    """Tensors of a pass. ``x`` (N, d) and ``w`` (C·K, d) are multiplied; the others are (N,), (C,) or one number."""

    x: Tensor
    w: Tensor
    labels: Tensor
    amplitude: Tensor | None = None
    threshold: Tensor | None = None
    t: Tensor | None = None
    bias: Tensor | None = None
    q: Tensor | None = None
    sigma: Tensor | None = None


@dataclass(frozen=True)
class Pass:
    """What to reduce, and how: ``total`` is 0 for none, 1 for Σ u, 2 for Σ q·u."""

    rule: Rule
    lse: bool
    total: int
    half: bool
    width: int | None = None

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.half else torch.float32

    def block(self, inputs: Inputs) -> int:
        """Classes of a block."""
        classes = inputs.w.shape[0] // self.rule.sub_centers
        rows = BLOCK // max(inputs.x.shape[0], 1) // self.rule.sub_centers
        return min(classes, self.width or max(rows, 1024))


class Units(NamedTuple):
    """Class vectors of a block as they are multiplied, and 1/‖w‖."""

    vectors: Tensor
    inverse: Tensor


def forward(job: Pass, inputs: Inputs) -> tuple[Tensor, Tensor, Units | None]:
    """(log Σ_{j≠y} e^u, Σ_{j≠y} q·u, the units of all classes if one block holds them)."""
    samples, d = inputs.x.shape
    classes, tile = inputs.w.shape[0] // job.rule.sub_centers, _tile(job, samples)
    width, x = job.block(inputs), inputs.x.to(job.dtype).contiguous()
    tiles = sum(triton.cdiv(min(width, classes - first), tile.classes) for first in range(0, classes, width))
    empty = x.new_empty((samples, tiles), dtype=torch.float32)
    tops, sums = (empty, torch.empty_like(empty)) if job.lse else (empty, empty)
    totals = torch.empty_like(empty) if job.total else empty
    units, done = None, 0
    for first in range(0, classes, width):
        count = min(width, classes - first)
        units = _units(job, inputs.w, first, count, units)
        columns = triton.cdiv(count, tile.classes)
        _launch(
            device.sums_kernel,
            (triton.cdiv(samples, tile.samples) * columns,),
            *_operands(inputs, x, units, first, count), tops, sums, totals,
            samples, count, d, first, done, tiles, *job.rule.numbers,
            *_constants(job, inputs, tile), **tile.options,
        )  # fmt: skip
        done += columns
    lse, total = x.new_zeros(samples, dtype=torch.float32), x.new_zeros(samples, dtype=torch.float32)
    _launch(device.finish_kernel, (samples,), tops, sums, totals, lse, total, tiles, 1024, job.lse, job.total > 0)
    return lse, total, units if width == classes else None


def backward(
    job: Pass, inputs: Inputs, lse: Tensor, d_lse: Tensor, d_total: Tensor, units: Units | None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of x, w, the amplitude, the bias and σ."""
    samples, d = inputs.x.shape
    per_class = job.rule.sub_centers
    classes, tile = inputs.w.shape[0] // per_class, _tile(job, samples, gradient=True)
    width, x = job.block(inputs), inputs.x.to(job.dtype).contiguous()
    tiles = sum(triton.cdiv(min(width, classes - first), tile.classes) for first in range(0, classes, width))
    d_x, d_w = x.new_zeros((samples, d), dtype=torch.float32), torch.empty_like(inputs.w)
    has_amplitude, has_bias = inputs.amplitude is not None, inputs.bias is not None
    parts = x.new_empty((samples, tiles), dtype=torch.float32) if has_amplitude else lse
    d_bias = x.new_zeros(classes, dtype=torch.float32) if has_bias else None
    d_sigma = x.new_zeros(1, dtype=torch.float32) if job.rule.kind == "binary" else None
    d_lse, d_total = d_lse.float().contiguous(), d_total.float().contiguous()
    gradient = x.new_empty(samples * _padded(width * per_class))
    done, kept = 0, units
    for first in range(0, classes, width):
        count = min(width, classes - first)
        units = kept if kept is not None else _units(job, inputs.w, first, count, units)
        assert units is not None
        columns = triton.cdiv(count, tile.classes)
        g = gradient[: samples * _padded(count * per_class)].view(samples, -1)
        _launch(
            device.gradient_kernel,
            (triton.cdiv(samples, tile.samples) * columns,),
            *_operands(inputs, x, units, first, count), lse, d_lse, d_total, g, parts,
            lse if d_bias is None else d_bias[first:], lse if d_sigma is None else d_sigma,
            samples, count, g.shape[1], d, first, done, tiles, *job.rule.numbers,
            *_constants(job, inputs, tile), **tile.options,
        )  # fmt: skip
        vectors = units.vectors[: g.shape[1]]
        d_x += _product(g, vectors)
        _class_gradients(job, g, x, Units(vectors, units.inverse), d_w[first * per_class : (first + count) * per_class])
        done += columns
    return d_x, d_w, parts.sum(1) if has_amplitude else None, d_bias, d_sigma


def polar(x: Tensor) -> tuple[Tensor, Tensor]:
    """(x/‖x‖, ‖x‖) of the rows of a contiguous float32 matrix."""
    rows, d = x.shape
    direction, length = torch.empty_like(x), x.new_empty(rows)
    _launch(device.polar_kernel, *_row_grid(rows, d), x, direction, length, rows, d, *_row_tile(d))
    return direction, length


def polar_backward(direction: Tensor, length: Tensor, d_direction: Tensor, d_length: Tensor) -> Tensor:
    """The gradient of x from those of its direction and length."""
    rows, d = direction.shape
    out = torch.empty_like(direction)
    tensors = (direction, length, d_direction.contiguous(), d_length.contiguous(), out)
    _launch(device.polar_backward_kernel, *_row_grid(rows, d), *tensors, rows, d, *_row_tile(d))
    return out


def _units(job: Pass, w: Tensor, first: int, count: int, buffer: Units | None) -> Units:
    """Class vectors of a block, in the buffer of the block before if there is one."""
    d, rows = w.shape[1], count * job.rule.sub_centers
    block = w[first * job.rule.sub_centers :][:rows]
    if buffer is None:
        vectors = block.new_empty((_padded(rows), d), dtype=job.dtype)
        buffer = Units(vectors, block.new_empty(rows, dtype=torch.float32))
    tensors, padded = (block, buffer.vectors, buffer.inverse), _padded(rows)
    _launch(device.unit_kernel, *_row_grid(padded, d), *tensors, rows, padded, d, *_row_tile(d), job.rule.normalize)
    return buffer


def _padded(columns: int) -> int:
    """Classes of a block up to what products in half precision like as a length; zeros fill it up."""
    return -(-columns // 32) * 32


def _class_gradients(job: Pass, g: Tensor, x: Tensor, units: Units, out: Tensor) -> None:
    rows, d = out.shape
    found = _product(g.T, x)[:rows]
    if not job.rule.normalize:
        out.copy_(found)
        return
    tensors = (found, units.vectors, units.inverse, out)
    _launch(device.tangent_kernel, *_row_grid(rows, d), *tensors, rows, d, *_row_tile(d))


def _product(a: Tensor, b: Tensor) -> Tensor:
    """a·b with float32 sums and a float32 result."""
    if a.dtype == torch.float32:
        return a @ b
    return torch.mm(a, b, out_dtype=torch.float32) if a.is_cuda else a.float() @ b.float()


class Tile(NamedTuple):
    """Samples, classes and depth of a program's part of the product."""

    samples: int
    classes: int
    depth: int
    options: dict[str, int]


def _tile(job: Pass, samples: int, gradient: bool = False) -> Tile:
    several = job.rule.sub_centers > 1
    plain = job.rule.kind == "cosine" and not several
    return _tiles(job.half, plain, gradient, several or samples <= 64, interpreting())


@cache
def _tiles(half: bool, plain: bool, gradient: bool, few: bool, small: bool) -> Tile:
    """Sizes at which little or nothing spills: what a rule computes beside the sums takes registers, too."""
    if small:
        return Tile(16, 32, 16, {})
    wide = half and plain and not gradient
    rows = 64 if few or not (half or plain) else 128
    return Tile(rows, 256 if wide else 128, 64 if half else 32, {"num_warps": 8, "num_stages": 3})


def _operands(inputs: Inputs, x: Tensor, units: Units, first: int, count: int) -> tuple[Any, ...]:
    """Tensors of a block; what a rule does not read is x."""
    block = slice(first, first + count)
    rows = [x if one is None else one for one in (inputs.amplitude, inputs.threshold, inputs.t)]
    columns = [x if one is None else one[block] for one in (inputs.bias, inputs.q)]
    return x, units.vectors, inputs.labels, *rows, *columns, x if inputs.sigma is None else inputs.sigma


def _constants(job: Pass, inputs: Inputs, tile: Tile) -> tuple[Any, ...]:
    return (
        KINDS.index(job.rule.kind),
        job.rule.sub_centers,
        inputs.amplitude is not None,
        inputs.bias is not None,
        job.lse,
        job.total,
        job.half and not interpreting(),
        "ieee" if interpreting() else "tf32" if job.half else "tf32x3",
        *tile[:3],
    )


def _row_tile(d: int) -> tuple[int, int]:
    wide = triton.next_power_of_2(d)
    return max(1, 2048 // wide), wide


def _row_grid(rows: int, d: int) -> tuple[tuple[int, ...]]:
    return ((triton.cdiv(rows, _row_tile(d)[0]),),)


def _launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: int) -> None:
    if grid[0] == 0:
        return
    LAUNCHES[kernel.fn.__name__] += 1
    kernel[grid](*arguments, **options)
