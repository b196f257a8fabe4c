"""A head's pass over its classes on a GPU: blocks of class vectors, three products per block, nothing of size N × C.

    forward    ŵ of a block, x·ŵ with Σ e^u as its epilogue
    backward   ŵ recomputed if it was not kept (:class:`Lodging`), x·ŵ with the gradient of z as its epilogue,
               dx += G·ŵ and dŵ = Gᵀ·x by the library's products, dw from dŵ

In half precision the products have bfloat16 operands and float32 sums; dŵ is rounded once. In float32, operands are
split in three TF32 parts for x·ŵ, in three bfloat16 parts for the library's products (six of them: error 2⁻²⁴).
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

__all__ = [
    "Inputs", "Kept", "Pass", "Rule", "backward", "forward", "launch", "polar", "polar_backward", "row_grid",
    "row_tile",
]  # fmt: skip

KINDS = ("cosine", "linear", "sigmoid", "square_cosine", "fraction", "curricular", "binary")
BLOCK = {True: 1 << 26, False: 1 << 25}  # logits of a block, in half precision and in float32


@dataclass(frozen=True)
class Rule:
    """The function f in u = a·f(z) + b (:mod:`.device.heads`) and its parameters.

    Args:
        kind: One of :data:`KINDS`.
        numbers: p0 to p2: 1/2k and 1/tanh(π/4k) of the sigmoid; 1/m of the fraction; r, m and t of the binary rule.
        normalize: Whether only the directions of the class vectors count.
        sub_centers: Number of vectors of each class.
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
    """What to sum over the classes, and how: ``total`` is 0 for no total, 1 for Σ u, 2 for Σ q·u."""

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
        rows = BLOCK[self.half] // max(inputs.x.shape[0], 1) // self.rule.sub_centers
        return min(classes, self.width or max(rows // 32 * 32, 1024))


class Units(NamedTuple):
    """Class vectors of a block as they are multiplied, and 1/‖w‖."""

    vectors: Tensor
    inverse: Tensor


class Lodging:
    """Unit vectors kept for the backward pass inside the memory of the gradient that it will write.

    An entry of the gradient of w takes 4 bytes, one of ŵ 2. ŵ lies in the second half of that memory. The gradient of
    the classes up to j ends before ŵ of class j + 1 begins, so blocks in order never overwrite what a later one reads.
    The last blocks, which overlap their own gradient, are not kept.
    """

    def __init__(self, w: Tensor) -> None:
        self.rows, d = w.shape
        self.gradient = torch.empty_like(w)
        self.vectors = self.gradient.view(-1).view(torch.bfloat16)[self.rows * d :].view(self.rows, d)
        self.inverse = w.new_empty(self.rows)

    def units(self, first: int, count: int) -> Units | None:
        """Memory for the unit vectors of these rows, or None if they cannot be kept."""
        if first + 2 * count > self.rows or count % 32:
            return None
        return Units(self.vectors[first : first + count], self.inverse[first : first + count])


Kept = Units | Lodging | None


def forward(job: Pass, inputs: Inputs, keep: bool = False) -> tuple[Tensor, Tensor, Kept]:
    """Return (log Σ_{j≠y} e^u, Σ_{j≠y} q·u, unit vectors for backward); ``keep``: whether a backward pass follows."""
    samples, d = inputs.x.shape
    classes, tile = inputs.w.shape[0] // job.rule.sub_centers, _tile(job, samples)
    width, x = job.block(inputs), inputs.x.to(job.dtype).contiguous()
    tiles = sum(triton.cdiv(min(width, classes - first), tile.classes) for first in range(0, classes, width))
    empty = x.new_empty((samples, tiles), dtype=torch.float32)
    tops, sums = (empty, torch.empty_like(empty)) if job.lse else (empty, empty)
    totals = torch.empty_like(empty) if job.total else empty
    several, wide = width < classes, inputs.w.dtype == torch.float32
    lodging = Lodging(inputs.w) if keep and several and wide and job.half and job.rule.normalize else None
    units, done = None, 0
    for first in range(0, classes, width):
        count = min(width, classes - first)
        room = _room(job, lodging, first, count)
        here = _units(job, inputs.w, first, count, units if room is None else room)
        units = here if room is None else units
        columns = triton.cdiv(count, tile.classes)
        launch(
            device.sums_kernel,
            (triton.cdiv(samples, tile.samples) * columns,),
            *_operands(inputs, x, here, first, count), tops, sums, totals,
            samples, count, d, first, done, tiles, *job.rule.numbers,
            *_constants(job, inputs, tile), **tile.options,
        )  # fmt: skip
        done += columns
    lse, total = x.new_zeros((2, samples), dtype=torch.float32)
    launch(device.finish_kernel, (samples,), tops, sums, totals, lse, total, tiles, 1024, job.lse, job.total > 0)
    return lse, total, lodging if several else units


def backward(
    job: Pass, inputs: Inputs, lse: Tensor, d_lse: Tensor, d_total: Tensor, kept: Kept
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of x, w, the amplitude, the bias and σ. ``kept`` can be used only once: it is overwritten."""
    samples, d = inputs.x.shape
    per_class = job.rule.sub_centers
    classes, tile = inputs.w.shape[0] // per_class, _tile(job, samples, gradient=True)
    width, x = job.block(inputs), inputs.x.to(job.dtype).contiguous()
    tiles = sum(triton.cdiv(min(width, classes - first), tile.classes) for first in range(0, classes, width))
    d_x = x.new_zeros((samples, d), dtype=torch.float32)
    lodging = kept if isinstance(kept, Lodging) else None
    d_w = torch.empty_like(inputs.w) if lodging is None else lodging.gradient
    has_amplitude, has_bias = inputs.amplitude is not None, inputs.bias is not None
    parts = x.new_empty((samples, tiles), dtype=torch.float32) if has_amplitude else lse
    d_bias = x.new_zeros(classes, dtype=torch.float32) if has_bias else None
    d_sigma = x.new_zeros(1, dtype=torch.float32) if job.rule.kind == "binary" else None
    d_lse, d_total = d_lse.float().contiguous(), d_total.float().contiguous()
    gradient = x.new_empty(samples * _padded(width * per_class))
    x_parts, buffer, done = _split(x), None, 0
    for first in range(0, classes, width):
        count = min(width, classes - first)
        units = kept if isinstance(kept, Units) else _room(job, lodging, first, count)
        if units is None:
            units = buffer = _units(job, inputs.w, first, count, buffer)
        columns = triton.cdiv(count, tile.classes)
        g = gradient[: samples * _padded(count * per_class)].view(samples, -1)
        launch(
            device.gradient_kernel,
            (triton.cdiv(samples, tile.samples) * columns,),
            *_operands(inputs, x, units, first, count), lse, d_lse, d_total, g, parts,
            lse if d_bias is None else d_bias[first:], lse if d_sigma is None else d_sigma,
            samples, count, g.shape[1], d, first, done, tiles, *job.rule.numbers,
            *_constants(job, inputs, tile), **tile.options,
        )  # fmt: skip
        units = Units(units.vectors[: g.shape[1]], units.inverse)
        g_parts = _split(g)
        for a, b in _pairs(g_parts, _split(units.vectors)):
            _add_product(d_x, a, b)
        rows = slice(first * per_class, (first + count) * per_class)
        _class_gradients(job, [part.T for part in g_parts], x_parts, units, d_w[rows])
        done += columns
    return d_x, d_w, parts.sum(1) if has_amplitude else None, d_bias, d_sigma


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


def _units(job: Pass, w: Tensor, first: int, count: int, buffer: Units | None) -> Units:
    """Class vectors of a block, in the previous block's buffer if there is one."""
    d, rows = w.shape[1], count * job.rule.sub_centers
    block = w[first * job.rule.sub_centers :][:rows]
    if buffer is None:
        vectors = block.new_empty((_padded(rows), d), dtype=job.dtype)
        buffer = Units(vectors, block.new_empty(rows, dtype=torch.float32))
    tensors, padded = (block, buffer.vectors, buffer.inverse), _padded(rows)
    launch(device.unit_kernel, *row_grid(padded, d), *tensors, rows, padded, d, *row_tile(d), job.rule.normalize)
    return buffer


def _padded(columns: int) -> int:
    """The number of classes in a block, rounded up to suit half-precision products; the rest is zeros."""
    return -(-columns // 32) * 32


def _room(job: Pass, lodging: Lodging | None, first: int, count: int) -> Units | None:
    per_class = job.rule.sub_centers
    return None if lodging is None else lodging.units(first * per_class, count * per_class)


def _class_gradients(job: Pass, g: list[Tensor], x: list[Tensor], units: Units, out: Tensor) -> None:
    """The gradient of the class vectors of a block, from the parts of Gᵀ and x."""
    rows, d = out.shape
    if len(g) == 1 and g[0].is_cuda and job.half:
        found = g[0] @ x[0]  # summed in float32, rounded to bfloat16
    else:
        found = units.inverse.new_empty(g[0].shape[0], d)
        for index, (a, b) in enumerate(_pairs(g, x)):
            _add_product(found, a, b, first=index == 0)
    found = found[:rows]
    if not job.rule.normalize:
        out.copy_(found)
        return
    tensors = (found, units.vectors, units.inverse, out)
    launch(device.tangent_kernel, *row_grid(rows, d), *tensors, rows, d, *row_tile(d))


def _split(a: Tensor) -> list[Tensor]:
    """a itself in half precision; a float32 matrix as the sum of three bfloat16 ones."""
    if a.dtype != torch.float32:
        return [a]
    parts = a.new_empty((3, *a.shape), dtype=torch.bfloat16)
    launch(device.split_kernel, (triton.cdiv(a.numel(), 4096),), a, parts, a.numel(), 4096)
    return list(parts)


def _pairs(a: list[Tensor], b: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Pairs of parts to multiply: all but those whose product is below the precision of float32."""
    return [(p, q) for i, p in enumerate(a) for j, q in enumerate(b) if i + j < max(len(a), len(b))]


def _add_product(into: Tensor, a: Tensor, b: Tensor, first: bool = False) -> None:
    """into += a·b, or into = a·b, with float32 sums."""
    if not a.is_cuda:
        into.addmm_(a.float(), b.float(), beta=0.0 if first else 1.0)
    elif first:
        torch.ops.aten.mm.dtype_out(a, b, torch.float32, out=into)
    else:
        torch.ops.aten.addmm.dtype_out(into, a, b, torch.float32, out=into)


class Tile(NamedTuple):
    """Samples, classes and depth of the tile that one program multiplies."""

    samples: int
    classes: int
    depth: int
    options: dict[str, int]


def _tile(job: Pass, samples: int, gradient: bool = False) -> Tile:
    several = job.rule.sub_centers > 1
    plain = job.rule.kind == "cosine" and not several
    return _tiles(job.half, plain, gradient, several or samples <= 64, interpreting())


SUMS_TILE = (128, 128, 64, 4, 3)
GRADIENT_TILE = (128, 128, 64, 4, 3)


@cache
def _tiles(half: bool, plain: bool, gradient: bool, few: bool, small: bool) -> Tile:
    """Sizes at which few or no registers spill; a rule's own computations need registers, too."""
    if small:
        return Tile(16, 32, 16, {})
    if half and plain and not few:
        rows, columns, depth, warps, stages = GRADIENT_TILE if gradient else SUMS_TILE
        return Tile(rows, columns, depth, {"num_warps": warps, "num_stages": stages})
    rows = 64 if few or not (half or plain) else 128
    return Tile(rows, 128, 64 if half else 32, {"num_warps": 8, "num_stages": 3})


def _operands(inputs: Inputs, x: Tensor, units: Units, first: int, count: int) -> tuple[Any, ...]:
    """Tensors of a block; x stands in for those that the rule does not read."""
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


def row_tile(d: int) -> tuple[int, int]:
    """The number of rows for one program, and their length rounded up to a power of two."""
    wide = triton.next_power_of_2(d)
    return max(1, 2048 // wide), wide


def row_grid(rows: int, d: int) -> tuple[tuple[int, ...]]:
    """The grid of a kernel over rows, to be unpacked after the kernel argument of :func:`launch`."""
    return ((triton.cdiv(rows, row_tile(d)[0]),),)


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: int) -> None:
    """Launch a kernel and count it; an empty grid does nothing."""
    if grid[0] == 0:
        return
    LAUNCHES[kernel.fn.__name__] += 1
    kernel[grid](*arguments, **options)
