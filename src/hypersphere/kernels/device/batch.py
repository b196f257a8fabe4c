"""A batch of images from a set on the device: chosen, flipped, shifted and normalised in one pass.

out[b, c, i, j] = shift_c + scale_c · images[order[t·B + row_b], c, r(i), s(j)]
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _moved(i, size, flip, shift):
    """The input coordinate that output coordinate i is read from."""
    flip = tl.load(flip).to(tl.int32)
    return i + flip * (size - 1 - 2 * i) + tl.load(shift).to(tl.int32)


@triton.jit
def batch_kernel(
    images, labels, order, draws, rows, step, scale, shift, out, out_labels,
    BATCH, SIZE, C, H, W, fill, ignore,
    CL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A program computes BLOCK entries of one image.

    ``draws`` are the up-down flip, the left-right flip, the shift down and the shift to the right.

    Positions from SIZE on pad the last batch; their label is ``ignore``.
    """
    b = tl.program_id(0)
    position = tl.load(step) * BATCH + tl.load(rows + b)
    index = tl.load(order + position)
    if tl.program_id(1) == 0:
        tl.store(out_labels + b, tl.where(position < SIZE, tl.load(labels + index), ignore))
    e = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = e < C * H * W
    if CL:
        c = e % C
        p = e // C
    else:
        c = e // (H * W)
        p = e % (H * W)
    i = p // W
    j = p % W
    if draws is not None:
        i = _moved(i, H, draws + position * 4, draws + position * 4 + 2)
        j = _moved(j, W, draws + position * 4 + 1, draws + position * 4 + 3)
    there = (i >= 0) & (i < H) & (j >= 0) & (j < W)
    v = tl.load(images + index * (C * H * W) + (c * H + i) * W + j, mask=inside & there, other=0)
    v = tl.where(there, v.to(tl.float32), fill)
    v = v * tl.load(scale + c, mask=inside, other=0.0) + tl.load(shift + c, mask=inside, other=0.0)
    tl.store(out + b.to(tl.int64) * (C * H * W) + e, v.to(out.dtype.element_ty), mask=inside)
