"""Softmax cross-entropy with its gradient and counts, and the sums that a training keeps of them, in one launch each.

ℓ = Σ_n [(1−ε)·(lse − z_y) + ε·(lse − mean z)] / N        over the N rows whose label counts
∂ℓ/∂z = (softmax z − (1−ε)·[j = y] − ε/C) / N
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def criterion_kernel(
    logits, labels, loss, stats, grad,
    ROWS, C, ignore, smoothing,
    BR: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """One program computes all rows: ``stats`` are the loss, 0, right answers, rows that count, and 1."""
    row = tl.arange(0, BR)
    col = tl.arange(0, BC)
    counted = tl.zeros([BR], tl.float32)
    for r0 in range(0, ROWS, BR):
        label = tl.load(labels + r0 + row, mask=r0 + row < ROWS, other=ignore)
        counted += (label != ignore).to(tl.float32)
    count = tl.sum(counted, 0)
    over = 1.0 / count
    losses = tl.zeros([BR], tl.float32)
    hits = tl.zeros([BR], tl.float32)
    share = smoothing / C
    for r0 in range(0, ROWS, BR):
        label = tl.load(labels + r0 + row, mask=r0 + row < ROWS, other=ignore)
        counts = label != ignore
        place = (r0 + row)[:, None] * C + col[None, :]
        there = (r0 + row < ROWS)[:, None] & (col < C)[None, :]
        z = tl.load(logits + place, mask=there, other=0.0).to(tl.float32)
        z = tl.where((col < C)[None, :], z, float("-inf"))
        largest = tl.max(z, 1)
        e = tl.exp(z - largest[:, None])
        total = tl.sum(e, 1)
        lse = largest + tl.log(total)
        own = (label[:, None] == col[None, :]) & there
        value = lse - tl.sum(tl.where(own, z, 0.0), 1)
        mean = tl.sum(tl.where(there, z, 0.0), 1) / C
        value = value + smoothing * (lse - mean - value)
        losses += tl.where(counts, value, 0.0)
        hits += (tl.argmax(z, 1) == label).to(tl.float32)
        slope = e / total[:, None] - tl.where(own, 1.0 - smoothing, 0.0) - share
        slope = tl.where(counts[:, None], slope * over, 0.0)
        tl.store(grad + place, slope.to(grad.dtype.element_ty), mask=there)
    value = tl.sum(losses, 0) * over
    tl.store(loss, value)
    tl.store(stats, value.to(tl.float64))
    tl.store(stats + 1, 0.0)
    tl.store(stats + 2, tl.sum(hits, 0).to(tl.float64))
    tl.store(stats + 3, count.to(tl.float64))
    tl.store(stats + 4, 1.0)


@triton.jit
def tally_kernel(total, stats, goes, counter, bad, sums, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """sums ← sums + stats; ``bad`` becomes the step whose total is the first that is not finite. 0 = goes: nothing."""
    i = tl.arange(0, BLOCK)
    ok = i < SIZE
    counts = tl.load(goes) != 0
    more = tl.where(counts, tl.load(stats + i, mask=ok, other=0.0), 0.0)
    tl.store(sums + i, tl.load(sums + i, mask=ok, other=0.0) + more, mask=ok)
    value = tl.load(total).to(tl.float32)
    known = tl.load(bad)
    lost = (value - value != 0.0) & counts  # so it is with infinities and NaN
    tl.store(bad, tl.where(lost & (known < 0), tl.load(counter), known))
