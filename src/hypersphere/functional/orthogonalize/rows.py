"""Rows beside each of many matrices, such as neurons and their gradients: few of them, all multiplied in one launch.

The rows of all stacks lie in one flat buffer, each as long as the padded matrix it belongs to
(:class:`~hypersphere.functional.orthogonalize.grouped.Layout`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...kernels import device as kernels
from .grouped import TILE, WARPS, Layout

_TURN: dict[str, Any] = {"BM": 64, "BN": 64, "BK": 32, "num_warps": 4, "num_stages": 3}


@dataclass(frozen=True, eq=False)
class Rows:
    """Where the rows of stacks of ``shapes`` (..., n, d) lie, and the tiles of their products."""

    layout: Layout
    shapes: tuple[torch.Size, ...]
    places: tuple[int, ...]
    total: int
    widths: Tensor
    jobs: Tensor

    def views(self, flat: Tensor) -> list[Tensor]:
        """The stacks inside a flat buffer."""
        out, p = [], 0
        for shape in self.shapes:
            count, (n, d) = shape[:-2].numel(), shape[-2:]
            size, place = self.layout.padded[p], self.places[p]
            out.append(flat[place : place + count * n * size].view(*shape[:-2], n, size)[..., :d])
            p += count
        return out

    def packed(self, stacks: Sequence[Tensor]) -> Tensor:
        """Stacks as a flat buffer."""
        make = torch.zeros if self.layout.has_padding else torch.empty
        flat = make(self.total, device=stacks[0].device)
        torch._foreach_copy_(self.views(flat), list(stacks))
        return flat


@dataclass(frozen=True)
class Beside:
    """What gradients of R are made of, as flat buffers: neurons v, w = Rv, the gradient g of w, and P = gR."""

    rows: Rows
    v: Tensor
    w: Tensor
    g: Tensor
    p: Tensor


def rows_of(layout: Layout, stacks: Sequence[Tensor]) -> Rows:
    """The places of these stacks of rows, one stack for each stack of matrices."""
    return _rows(layout, tuple(x.shape for x in stacks))


@functools.lru_cache(maxsize=64)
def _rows(layout: Layout, shapes: tuple[torch.Size, ...]) -> Rows:
    counts = [shape[-2] for shape in shapes for _ in range(shape[:-2].numel())]
    places = [0]
    for n, size in zip(counts, layout.padded, strict=True):
        places.append(places[-1] + n * size)
    order = sorted(range(len(counts)), key=lambda p: -layout.padded[p])
    tall, wide = _TURN["BM"], _TURN["BN"]
    jobs = [(p, i, j) for p in order for j in range(-(-layout.padded[p] // wide)) for i in range(-(-counts[p] // tall))]
    widths = torch.tensor(list(zip(counts, places, strict=False)), dtype=torch.int64)
    device = layout.table.device
    return Rows(
        layout,
        shapes,
        tuple(places[:-1]),
        places[-1],
        widths.to(device),
        torch.tensor(jobs, dtype=torch.int32).to(device),
    )


def turn(rows: Rows, x: Tensor, r: Tensor, *, back: bool = False) -> Tensor:
    """X·Rᵀ, or X·R if ``back``, of all stacks, in split TF32: with the error of float32."""
    out = torch.empty_like(x)
    with torch.cuda.device_of(x):
        kernels.products.turn_kernel[(len(rows.jobs),)](
            x, r, out, rows.widths, rows.jobs, rows.layout.table, **_TURN, BACK=back
        )
    return out


def skew_product(rows: Rows, p: Tensor, v: Tensor, part: str = "whole") -> Tensor:
    """N − Nᵀ, N = PᵀV, of all stacks.

    ``part`` "upper" is Nᵀ − N above the diagonal, with tiles below it that are not written; "lower" is ½(N − Nᵀ) below
    the diagonal and 0 elsewhere.
    """
    layout = rows.layout
    out = torch.empty(layout.total, device=p.device)
    with torch.cuda.device_of(p):
        kernels.products.thin_kernel[(len(layout.upper_tiles),)](
            p, v, out, rows.widths, layout.upper_tiles, layout.table,
            **TILE, PART=("whole", "upper", "lower").index(part), num_warps=WARPS, num_stages=2,
        )  # fmt: skip
    return out
