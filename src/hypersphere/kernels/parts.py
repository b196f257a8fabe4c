"""Products with float32 accuracy by the library's half-precision ones: a float32 matrix is a sum of bfloat16 parts.

    a = a₀ + a₁ + a₂,   a·b = Σ_{i+j<3} a_i·b_j    (error 2⁻²⁴)

Three products do for these six terms: the parts of one factor that meet the same part of the other lie one after the
other. In half precision there is one part, the matrix itself, and everything here is one product.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .device import heads as device
from .rows import launch


def split(a: Tensor) -> Tensor:
    """The parts of a matrix (n, m), (parts, n, m)."""
    if a.dtype != torch.float32:
        return a[None]
    parts = a.new_empty((3, *a.shape), dtype=torch.bfloat16)
    launch(device.split_kernel, (-(-a.numel() // 4096),), a, parts, a.numel(), 4096)
    return parts


def stacked(b: Tensor) -> list[Tensor]:
    """Each part of b as often as :func:`transposed_product` needs it, one below the other."""
    return [b[0]] if len(b) == 1 else [part.repeat(len(b) - place, 1) for place, part in enumerate(b)]


def add_product(into: Tensor, a: Tensor, b: Tensor, first: bool = False) -> None:
    """a·b of parts (p, n, m) and (p, m, d), added to ``into`` (p·n, d) in float32; its p blocks of rows sum to it."""
    for place, part in enumerate(b):
        rows = a[: len(a) - place].flatten(0, 1)
        _add(into[: rows.shape[0]], rows, part, first and place == 0)


def transposed_product(a: Tensor, b: list[Tensor]) -> Tensor:
    """aᵀ·b (m, d) of parts a (p, n, m) and :func:`stacked` ones; in half precision on a GPU rounded to it, once."""
    if len(a) == 1 and a.is_cuda and a.dtype != torch.float32:
        return a[0].T @ b[0]
    out = a.new_empty((a.shape[2], b[0].shape[1]), dtype=torch.float32)
    for place, part in enumerate(b):
        _add(out, a[: len(a) - place].flatten(0, 1).T, part, place == 0)
    return out


def _add(into: Tensor, a: Tensor, b: Tensor, first: bool) -> None:
    """into += a·b, or into = a·b, with float32 sums."""
    if not a.is_cuda:
        into.addmm_(a.float(), b.float(), beta=0.0 if first else 1.0)
    elif first:
        torch.ops.aten.mm.dtype_out(a, b, torch.float32, out=into)
    else:
        torch.ops.aten.addmm.dtype_out(into, a, b, torch.float32, out=into)
