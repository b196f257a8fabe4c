"""Lengths and directions of rows: x = ‖x‖·u, and the gradient (g − u⟨u, g⟩)/‖x‖ of x from that of u."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def length(w):
    """w/‖w‖ of each row, ‖w‖ and its reciprocal (0 for a zero row), accurate at every scale."""
    largest = tl.max(tl.abs(w), 1)
    scale = tl.where(largest == 0.0, 1.0, largest)
    v = w / scale[:, None]
    n = tl.sqrt(tl.sum(v * v, 1))
    inverse = tl.where(largest == 0.0, 0.0, 1.0 / tl.where(largest == 0.0, 1.0, n))
    return v * inverse[:, None], n * tl.where(largest == 0.0, 0.0, largest), inverse / scale


@triton.jit
def unit_kernel(w, out, rows, padded, d, R: tl.constexpr, D: tl.constexpr, UNIT: tl.constexpr):
    """Rows of w as unit vectors (or as they are) in the dtype of ``out``; zeros up to ``padded`` rows."""
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    k = tl.arange(0, D)
    there = (r < rows)[:, None] & (k < d)[None, :]
    v = tl.load(w + r[:, None] * d + k[None, :], mask=there, other=0.0).to(tl.float32)
    if UNIT:
        v, _, _ = length(v)
    tl.store(
        out + r[:, None] * d + k[None, :], v.to(out.dtype.element_ty), mask=(r < padded)[:, None] & (k < d)[None, :]
    )


@triton.jit
def polar_kernel(x, direction, lengths, rows, d, R: tl.constexpr, D: tl.constexpr):
    """x/‖x‖ and ‖x‖."""
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    k = tl.arange(0, D)
    there = (r < rows)[:, None] & (k < d)[None, :]
    v = tl.load(x + r[:, None] * d + k[None, :], mask=there, other=0.0).to(tl.float32)
    u, n, _ = length(v)
    tl.store(direction + r[:, None] * d + k[None, :], u, mask=there)
    tl.store(lengths + r, n, mask=r < rows)


@triton.jit
def polar_backward_kernel(direction, lengths, d_direction, d_length, out, rows, d, R: tl.constexpr, D: tl.constexpr):
    """(g − u⟨u, g⟩)/‖x‖ + u·g_n, with g and g_n the gradients of direction and length."""
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    k = tl.arange(0, D)
    there = (r < rows)[:, None] & (k < d)[None, :]
    place = r[:, None] * d + k[None, :]
    u = tl.load(direction + place, mask=there, other=0.0)
    g = tl.load(d_direction + place, mask=there, other=0.0)
    n = tl.load(lengths + r, mask=r < rows, other=0.0)
    g_n = tl.load(d_length + r, mask=r < rows, other=0.0)
    inverse = tl.where(n == 0.0, 0.0, 1.0 / tl.where(n == 0.0, 1.0, n))
    along = tl.sum(u * g, 1)
    tl.store(out + place, (g - u * along[:, None]) * inverse[:, None] + u * g_n[:, None], mask=there)


@triton.jit
def tangent_kernel(g, w, out, rows, d, R: tl.constexpr, D: tl.constexpr):
    """dw = (g − u⟨u, g⟩)/‖w‖."""
    r = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)
    k = tl.arange(0, D)
    there = (r < rows)[:, None] & (k < d)[None, :]
    place = r[:, None] * d + k[None, :]
    v = tl.load(g + place, mask=there, other=0.0).to(tl.float32)
    u, _, inverse = length(tl.load(w + place, mask=there, other=0.0).to(tl.float32))
    along = tl.sum(u * v, 1)
    tl.store(out + place, ((v - u * along[:, None]) * inverse[:, None]).to(out.dtype.element_ty), mask=there)
