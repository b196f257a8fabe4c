"""Triton kernels of the polar factor that starts from the last step. They work on the flat buffers of ``products``."""

from __future__ import annotations

import triton
import triton.language as tl

from .products import finite, locate


@triton.jit
def halves_kernel(k, skew, symmetric, tiles, table, factor, B: tl.constexpr, STORE: tl.constexpr):
    """``factor``·(K − Kᵀ) in half precision (STORE & 1), ½(K + Kᵀ) (STORE & 2)."""
    _, i, j, size, place, _, _ = locate(tl.program_id(0), tiles, table)
    row, col = i * B + tl.arange(0, B)[:, None], j * B + tl.arange(0, B)[None, :]
    inside = (row < size) & (col < size)
    here = tl.load(k + place + row * size + col, mask=inside, other=0.0).to(tl.float32)
    there = tl.load(k + place + col * size + row, mask=inside, other=0.0).to(tl.float32)
    if STORE & 1:
        tl.store(skew + place + row * size + col, factor * (here - there), mask=inside)
    if STORE & 2:
        tl.store(symmetric + place + row * size + col, 0.5 * (here + there), mask=inside)


@triton.jit
def rows_kernel(x, worst, sizes, tiles, table, factor, B: tl.constexpr):
    """The largest squared row norm of ``factor``·X for each matrix; a program takes B rows."""
    p, i, _, size, place, _, _ = locate(tl.program_id(0), tiles, table)
    true = tl.load(sizes + p)
    row = i * B + tl.arange(0, B)[:, None]
    square = tl.zeros((B,), tl.float32)
    for start in range(0, size, B):
        col = start + tl.arange(0, B)[None, :]
        inside = (row < true) & (col < true)
        value = factor * tl.load(x + place + row * size + col, mask=inside, other=0.0).to(tl.float32)
        square += tl.sum(value * value, 1)
    tl.atomic_max(worst + p, tl.max(finite(square)))


@triton.jit
def basis_kernel(b, turn, sigma, negative, tiles, table, share, floor, limit, B: tl.constexpr):
    """σ = diag B, and the skew G with Gᵢⱼ = Bᵢⱼ/(σⱼ − σᵢ) that makes B more diagonal; a program takes B rows.

    An entry is 0 where it would turn by more than ``share``. Such a pair does not need to be diagonalised here.
    An eigenvalue below −``limit`` to second order stays as it is in σ, and ``negative`` becomes 1 for its matrix.
    """
    p, i, _, size, place, first, _ = locate(tl.program_id(0), tiles, table)
    at = i * B + tl.arange(0, B)
    mine = tl.load(b + place + at * size + at)
    exact = mine
    row = at[:, None]
    for start in range(0, size, B):
        across = start + tl.arange(0, B)
        other = tl.load(b + place + across * size + across)
        col = across[None, :]
        entry = tl.load(b + place + row * size + col)
        gap = other[None, :] - mine[:, None]
        use = (row != col) & (tl.abs(entry) < share * tl.abs(gap))
        angle = tl.where(use, entry / tl.where(use, gap, 1.0), 0.0)
        tl.store(turn + place + row * size + col, angle)
        exact -= tl.sum(angle * entry, 1)
    below = exact < -limit
    tl.store(sigma + first + at, tl.where(mine == 0.0, 0.0, tl.where(below, exact, tl.maximum(mine, floor))))
    tl.atomic_max(negative + p, tl.max(below.to(tl.int32), 0))


@triton.jit
def unit_kernel(x, half, worst, tiles, table, B: tl.constexpr):
    """X over the square root of ``worst``, in place and in half precision; a program takes B rows."""
    p, i, _, size, place, _, _ = locate(tl.program_id(0), tiles, table)
    square = tl.load(worst + p)
    factor = tl.where(square > 0.0, 1.0 / tl.sqrt(tl.where(square > 0.0, square, 1.0)), 1.0)
    row = i * B + tl.arange(0, B)[:, None]
    for start in range(0, size, B):
        at = place + row * size + start + tl.arange(0, B)[None, :]
        value = factor * tl.load(x + at)
        tl.store(x + at, value)
        tl.store(half + at, value)
