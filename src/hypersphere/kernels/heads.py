"""A head's pass over its classes on a GPU: blocks of class vectors, nothing of size N × C beside the gradient.

Where |u| has a bound, so that e^u fits in float32 without a maximum taken out (``at once``; three products):

    forward    ŵ of a block; x·ŵ with G = e^u·∂u/∂z and Σ e^u as its epilogue; the sum of G·ŵ
    backward   k = ∂loss/∂Σ e^u of each sample; dx = k·ΣG·ŵ, dŵ = Gᵀ·(k·x), dw from dŵ

G waits in the memory of the gradient of w. Otherwise (four products):

    forward    ŵ of a block; x·ŵ with Σ e^u as its epilogue
    backward   ŵ recomputed if it was not kept (:class:`Lodging`); x·ŵ with the gradient of z as its epilogue, G;
               dx += G·ŵ and dŵ = Gᵀ·x, dw from dŵ

In half precision the products have bfloat16 operands and float32 sums; dŵ is rounded once. In float32, operands are
split in three TF32 parts for x·ŵ, in three bfloat16 parts for the library's products (:mod:`.parts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .device import heads as device
from .job import KINDS, Block, Inputs, Pass, Tile, padded, tile_of
from .launch import interpreting
from .parts import add_product, split, stacked, transposed_product
from .rows import launch, row_grid, row_tile, tangent, unit


class Lodging:
    """Unit vectors kept for the backward pass inside the memory of the gradient that it will write.

    An entry of the gradient of w takes 4 bytes, one of ŵ 2. ŵ lies in the second half of that memory. The gradient of
    the classes up to j ends before ŵ of class j + 1 begins, so blocks in order never overwrite what a later one reads.
    The last blocks, which overlap their own gradient, are not kept.
    """

    def __init__(self, gradient: Tensor) -> None:
        self.gradient, (self.rows, d) = gradient, gradient.shape
        self.vectors = gradient.view(-1).view(torch.bfloat16)[self.rows * d :].view(self.rows, d)

    def room(self, rows: slice) -> Tensor | None:
        """Memory for the unit vectors of these rows, or None if they cannot be kept."""
        count = rows.stop - rows.start
        return None if rows.stop + count > self.rows or count % 32 else self.vectors[rows]


Kept = tuple[Tensor, ...]
"""What forward leaves for backward, to be saved: one tensor of unit vectors (all, or a :class:`Lodging`'s), or what it
knows of the gradients: the memory of that of w, Σ G·ŵ in parts, Σ e^u, the amplitude's by tile, and each G that has no
room in the first."""


def taken(ctx: Any, saved: Sequence[Tensor]) -> Kept:
    """What was saved, for the one backward pass that overwrites it; nothing for a second one, which computes it again.

    These are other tensors on the same memory: a gradient that lies in it may be changed in place while a retained
    graph still refers to what was saved.
    """
    first, ctx.taken = not getattr(ctx, "taken", False), True
    return tuple(_again(one.contiguous()) for one in saved) if first else ()


def _again(t: Tensor) -> Tensor:
    return t.new_empty(0).set_(t.untyped_storage(), t.storage_offset(), t.shape, t.stride())


def forward(job: Pass, inputs: Inputs, keep: bool = False) -> tuple[Tensor, Tensor, Kept]:
    """Return (log Σ_{j≠y} e^u, Σ_{j≠y} q·u, what backward can use); ``keep``: whether a backward pass follows."""
    if keep and job.is_at_once(inputs):
        return _early(job, inputs)
    samples, d = inputs.x.shape
    tile, x = tile_of(job, samples), job.operand(inputs)
    blocks = job.blocks(inputs, tile.classes)
    tiles = blocks[-1].tile + blocks[-1].columns
    empty = x.new_empty((samples, tiles), dtype=torch.float32)
    tops, sums = (empty, torch.empty_like(empty)) if job.lse else (empty, empty)
    totals = torch.empty_like(empty) if job.total else empty
    several, wide = len(blocks) > 1, inputs.w.dtype == torch.float32
    lodges = keep and several and wide and job.half and job.rule.normalize
    lodging, buffer = Lodging(torch.empty_like(inputs.w)) if lodges else None, None
    for block in blocks:
        room = None if lodging is None else lodging.room(block.rows)
        if room is None:
            vectors = buffer = _units(job, inputs.w, block, buffer)
        else:
            vectors = _units(job, inputs.w, block, room)
        launch(
            device.sums_kernel,
            (-(-samples // tile.samples) * block.columns,),
            *_operands(inputs, x, vectors, block), tops, sums, totals,
            samples, block.size, d, block.first, block.tile, tiles, *job.rule.numbers,
            *_constants(job, inputs, tile, int(job.lse)), warps=tile.warps, stages=tile.stages,
        )  # fmt: skip
    lse, total, _ = _finished(tops, sums, totals, int(job.lse), job.total > 0)
    kept = buffer if not several else None if lodging is None else lodging.gradient
    return lse, total, () if kept is None else (kept,)


def backward(
    job: Pass, inputs: Inputs, lse: Tensor, d_lse: Tensor, d_total: Tensor, kept: Kept
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of x, w, the amplitude, the bias and σ. ``kept`` can be used only once: it is overwritten."""
    if not kept and job.is_at_once(inputs):
        kept = _early(job, inputs)[2]
    if len(kept) > 1:
        return _late(job, inputs, d_lse.float().contiguous(), kept)
    (samples, d), w = inputs.x.shape, inputs.w
    tile, x = tile_of(job, samples, gradient=True), job.operand(inputs)
    blocks = job.blocks(inputs, tile.classes)
    tiles = blocks[-1].tile + blocks[-1].columns
    x_parts = split(x)
    sums = x.new_empty((len(x_parts) * samples, d), dtype=torch.float32)
    lodging = Lodging(kept[0]) if kept and len(blocks) > 1 else None
    d_w = torch.empty_like(w) if lodging is None else lodging.gradient
    parts = x.new_empty((samples, tiles), dtype=torch.float32) if inputs.amplitude is not None else None
    d_bias = None if inputs.bias is None else torch.zeros_like(inputs.bias, dtype=torch.float32)
    curved, sigma = job.rule.kind == "curved", inputs.sigma
    d_sigma = torch.zeros_like(sigma) if sigma is not None and (curved or job.rule.kind == "binary") else None
    d_lse, d_total = d_lse.float().contiguous(), d_total.float().contiguous()
    gradient = x.new_empty(samples * padded(blocks[0].size * job.rule.sub_centers))
    below, buffer = stacked(x_parts), None
    for block in blocks:
        vectors = lodging.room(block.rows) if lodging is not None else kept[0] if kept else None
        if vectors is None:
            vectors = buffer = _units(job, w, block, buffer)
        g = gradient[: samples * padded(block.rows.stop - block.rows.start)].view(samples, -1)
        some_bias = lse if d_bias is None else d_bias[block.first :]
        some_sigma = lse if d_sigma is None else d_sigma[block.first :] if curved else d_sigma
        extra = (lse if parts is None else parts, some_bias, some_sigma)
        tensors = (*_operands(inputs, x, vectors, block), lse, d_lse, d_total, g, lse, *extra)
        _gradient(job, inputs, tile, block, tiles, tensors, int(job.lse))
        g_parts = split(g)
        add_product(sums, g_parts, split(vectors[: g.shape[1]]), first=block.first == 0)
        _class_gradients(job, transposed_product(g_parts, below), w[block.rows], d_w[block.rows])
    d_x = sums if len(x_parts) == 1 else sums.view(len(x_parts), samples, d).sum(0)
    return d_x, d_w, None if parts is None else parts.sum(1), d_bias, d_sigma


def _early(job: Pass, inputs: Inputs) -> tuple[Tensor, Tensor, Kept]:
    """The forward pass at once with what the gradients need."""
    (samples, d), w = inputs.x.shape, inputs.w
    tile, x = tile_of(job, samples, gradient=True), job.operand(inputs)
    blocks = job.blocks(inputs, tile.classes)
    tiles, has_amplitude = blocks[-1].tile + blocks[-1].columns, inputs.amplitude is not None
    parts = x.new_empty((1 + has_amplitude, samples, tiles), dtype=torch.float32)
    sums = x.new_empty(((1 if job.half else 3) * samples, d), dtype=torch.float32)
    d_w, outside, buffer = torch.empty_like(w), [], None
    for block in blocks:
        vectors = buffer = _units(job, w, block, buffer)
        g = _room(job, inputs, d_w[block.rows])
        if g is None:
            outside.append(g := x.new_empty((samples, padded(len(w[block.rows])))))
        tensors = (*_operands(inputs, x, vectors, block), x, x, x, g, parts[0], parts[-1], x, x)
        _gradient(job, inputs, tile, block, tiles, tensors, 2)
        add_product(sums, split(g), split(vectors[: g.shape[1]]), first=block.first == 0)
    lse, total, whole = _finished(parts[0], parts[0], parts[0], 2, False)
    return lse, total, (d_w, sums, whole, *parts[1:], *outside)


def _room(job: Pass, inputs: Inputs, d_w: Tensor) -> Tensor | None:
    """Memory for G of a block inside that of the gradient of its class vectors, if it fits there."""
    samples, rows = inputs.x.shape[0], len(d_w)
    if not job.lodges(inputs, rows):
        return None
    return d_w.view(-1).view(job.dtype)[: samples * padded(rows)].view(samples, -1)


def _late(job: Pass, inputs: Inputs, d_lse: Tensor, kept: Kept) -> tuple[Any, ...]:
    """The backward pass, with what :func:`_early` prepared."""
    (samples, d), w = inputs.x.shape, inputs.w
    x, (d_w, sums, whole, *others) = inputs.x.contiguous(), kept
    by_tile = None if inputs.amplitude is None else others.pop(0)
    scaled, d_x, share = torch.empty_like(x, dtype=job.dtype), sums[:samples], torch.empty_like(d_lse)
    tensors = (x, sums, whole, d_lse, scaled, d_x, share)
    constants = (1 if job.half else 3, *row_tile(d))
    launch(device.late_kernel, *row_grid(samples, d), *tensors, samples, d, *constants)
    below = stacked(split(scaled))
    for block in job.blocks(inputs, 1):
        room = _room(job, inputs, d_w[block.rows])
        g = others.pop(0) if room is None else room
        _class_gradients(job, transposed_product(split(g), below), w[block.rows], d_w[block.rows])
    return d_x, d_w, None if by_tile is None else by_tile.sum(1) * share, None, None


def _gradient(
    job: Pass, inputs: Inputs, tile: Tile, block: Block, tiles: int, tensors: tuple[Tensor, ...], lse: int
) -> None:
    samples, d = inputs.x.shape
    width = tensors[12].shape[1]
    launch(
        device.gradient_kernel,
        (-(-samples // tile.samples) * block.columns,),
        *tensors, samples, block.size, width, d, block.first, block.tile, tiles, *job.rule.numbers,
        *_constants(job, inputs, tile, lse), warps=tile.warps, stages=tile.stages,
    )  # fmt: skip


def _finished(tops: Tensor, sums: Tensor, totals: Tensor, lse: int, total: bool) -> tuple[Tensor, Tensor, Tensor]:
    """log Σ e^u, Σ q·u and (``lse`` = 2) Σ e^u over all tiles."""
    samples, tiles = sums.shape
    found = (sums.new_empty(samples), sums.new_empty(samples), sums.new_empty(samples))
    launch(device.finish_kernel, (samples,), tops, sums, totals, *found, tiles, 1024, lse, total)
    return found


def _units(job: Pass, w: Tensor, block: Block, buffer: Tensor | None) -> Tensor:
    """Class vectors of a block, in ``buffer`` (the previous block's) if there is one."""
    rows = w[block.rows]
    count = padded(rows.shape[0])
    if buffer is None:
        buffer = rows.new_empty((count, w.shape[1]), dtype=job.dtype)
    unit(rows, buffer[:count], job.rule.normalize)
    return buffer


def _class_gradients(job: Pass, d_unit: Tensor, w: Tensor, out: Tensor) -> None:
    """The gradient of the class vectors of a block, from that of the vectors that were multiplied."""
    if job.rule.normalize:
        tangent(d_unit, w, out)
    else:
        out.copy_(d_unit[: out.shape[0]])


def _operands(inputs: Inputs, x: Tensor, vectors: Tensor, block: Block) -> tuple[Tensor, ...]:
    """Tensors of a block; x stands in for those that the rule does not read."""
    here = slice(block.first, block.first + block.size)
    rows = [x if one is None else one for one in (inputs.amplitude, inputs.threshold, inputs.t)]
    columns = [x if one is None else one[here] for one in (inputs.bias, inputs.q)]
    sigma = x if inputs.sigma is None else inputs.sigma[here] if inputs.sigma.numel() > 1 else inputs.sigma
    return x, vectors, inputs.labels, *rows, *columns, sigma


def _constants(job: Pass, inputs: Inputs, tile: Tile, lse: int) -> tuple[Any, ...]:
    return (
        KINDS.index(job.rule.kind),
        job.rule.sub_centers,
        inputs.amplitude is not None,
        inputs.bias is not None,
        lse,
        job.total,
        job.half and not interpreting(),
        "ieee" if interpreting() else "tf32" if job.half else "tf32x3",
        *tile[:3],
        inputs.x.shape[1] % tile.depth == 0,
    )
