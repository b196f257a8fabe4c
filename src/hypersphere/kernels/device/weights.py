"""Unit weights ŵ = w/‖w‖ in one launch, and their gradient (g − ŵ⟨ŵ, g⟩)/‖w‖ in another."""

from __future__ import annotations

import triton
import triton.language as tl

from .norms import ZERO


@triton.jit
def _moved(j, CHANNELS, WINDOW, MOVE: tl.constexpr):
    """The offset of entry j of a contiguous filter (channels, window) in channels-last order."""
    if MOVE:
        return (j % WINDOW) * CHANNELS + j // WINDOW
    else:
        return j


@triton.jit
def unit_kernel(
    w, out, inverse, zeroed, q, r,
    K, CHANNELS, WINDOW, ZEROS, ROWS, scale, lift,
    MOVE: tl.constexpr, BLOCK: tl.constexpr, BLOCK_ZEROS: tl.constexpr,
):  # fmt: skip
    """One program per filter of K entries: its unit vector times ``scale``, and 1/‖w‖ (0 for a zero filter).

    The filter is divided by its largest entry first, so that no square overflows or underflows. The
    programs also set ``zeroed`` to 0, the sums that later kernels of the layer add to, and r of the ROWS rows that a
    linear layer reads to lift/√q (0 for a row of zeros).
    """
    filter_ = tl.program_id(0)
    start = w + filter_.to(tl.int64) * K
    j = tl.arange(0, BLOCK)
    v = tl.load(start + j, mask=j < K, other=0.0).to(tl.float32)
    largest = tl.abs(v)
    for j0 in range(BLOCK, K, BLOCK):
        more = tl.abs(tl.load(start + j0 + j, mask=j0 + j < K, other=0.0).to(tl.float32))
        largest = tl.maximum(largest, more, propagate_nan=tl.PropagateNan.ALL)
    top = tl.max(largest, 0)
    top = tl.where(tl.sum(tl.where(largest == largest, 0.0, 1.0), 0) > 0.0, float("nan"), top)
    zero = top == 0.0
    over = 1.0 / tl.where(zero, 1.0, top)
    squares = (v * over) * (v * over)
    for j0 in range(BLOCK, K, BLOCK):
        more = tl.load(start + j0 + j, mask=j0 + j < K, other=0.0).to(tl.float32) * over
        squares += more * more
    length = tl.sqrt_rn(tl.where(zero, 1.0, tl.sum(squares, 0)))
    tl.store(inverse + filter_, tl.where(zero, 0.0, over / length))
    out += filter_.to(tl.int64) * K
    unit = v * over / length * scale
    tl.store(out + _moved(j, CHANNELS, WINDOW, MOVE), unit.to(out.dtype.element_ty), mask=j < K)
    for j0 in range(BLOCK, K, BLOCK):
        unit = tl.load(start + j0 + j, mask=j0 + j < K, other=0.0).to(tl.float32) * over / length * scale
        place = _moved(j0 + j, CHANNELS, WINDOW, MOVE)
        tl.store(out + place, unit.to(out.dtype.element_ty), mask=j0 + j < K)
    if zeroed is not None:
        for i0 in range(filter_ * BLOCK_ZEROS, ZEROS, tl.num_programs(0) * BLOCK_ZEROS):
            i = i0 + tl.arange(0, BLOCK_ZEROS)
            tl.store(zeroed + i, tl.zeros([BLOCK_ZEROS], tl.float64), mask=i < ZEROS)
    if q is not None:
        for i0 in range(filter_ * BLOCK_ZEROS, ROWS, tl.num_programs(0) * BLOCK_ZEROS):
            row = i0 + tl.arange(0, BLOCK_ZEROS)
            n2 = tl.load(q + row, mask=row < ROWS, other=0.0)
            tl.store(r + row, tl.where(n2 < ZERO, 0.0, tl.rsqrt(tl.where(n2 < ZERO, 1.0, n2)) * lift), mask=row < ROWS)


@triton.jit
def _finite(g):
    """float16 gradients as float32 with infinities replaced, because their differences would be NaN."""
    g = tl.where(g > 65504.0, 65504.0, g)
    return tl.where(g < -65504.0, -65504.0, g)


@triton.jit
def unit_backward_kernel(
    w, grad, inverse, out,
    K, CHANNELS, WINDOW, scale,
    MOVE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """``out`` has the layout of ``w``, ``grad`` that of the unit weight."""
    filter_ = tl.program_id(0)
    start = filter_.to(tl.int64) * K
    factor = tl.load(inverse + filter_)
    along = tl.zeros([BLOCK], tl.float32)
    for j0 in range(0, K, BLOCK):
        j = j0 + tl.arange(0, BLOCK)
        v = tl.load(w + start + j, mask=j < K, other=0.0).to(tl.float32) * factor
        g = tl.load(grad + start + _moved(j, CHANNELS, WINDOW, MOVE), mask=j < K, other=0.0).to(tl.float32)
        if grad.dtype.element_ty == tl.float16:
            g = _finite(g)
        along += v * g
    total = tl.sum(along, 0)
    for j0 in range(0, K, BLOCK):
        j = j0 + tl.arange(0, BLOCK)
        v = tl.load(w + start + j, mask=j < K, other=0.0).to(tl.float32) * factor
        g = tl.load(grad + start + _moved(j, CHANNELS, WINDOW, MOVE), mask=j < K, other=0.0).to(tl.float32)
        if grad.dtype.element_ty == tl.float16:
            g = _finite(g)
        tl.store(out + start + j, ((g - v * total) * (factor * scale)).to(out.dtype.element_ty), mask=j < K)
