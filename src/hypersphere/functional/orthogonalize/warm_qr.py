"""Gram-Schmidt and Householder of many matrices from the triangular factor of the last step: products, and one Cholesky.

With T⁻¹ of the last step, X = U·T⁻¹ is near Q in all but its last columns (after Adam's steps of 1e-3 its condition
number is 2 to 5, where that of a Gaussian U is thousands), so one Cholesky factor LLᵀ = XᵀX in float32 is enough:

    Q = X·L⁻ᵀ,   T⁻¹ ← T⁻¹·L⁻ᵀ,   then Q ← Q(I − triu(E, 1) − ½diag E) with E = QᵀQ − I, which leaves E²

Any triangular start gives the Q of U, as far as E is small; how small it was is looked at in every step. E too large,
or NaN of a failed factorization: Q is NaN and ``failed`` says so. Outside of CUDA graphs the host looks, and
computes from the beginning.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from . import algorithms as exact
from .beside import side_by_side
from .from_last import FromLast, Solved
from .grouped import Layout, kernels, layout_of, product

__all__ = ["WarmQR", "qr_from_skew"]

_CLOSE = 1e-4  # norm of a row of E: T⁻¹, which is not corrected, errs by as much
_LAST = 64  # columns of Q that may turn by any angle between two steps
_TILE, _BASE = 64, 32


class WarmQR(FromLast):
    """The map and its memory; ``householder`` keeps the determinant of Q, as Algorithm 3 does, not diag T > 0."""

    kind = "qr"

    def __init__(self, shapes: Sequence[torch.Size], device: torch.device, householder: bool = False) -> None:
        super().__init__(shapes, device)
        self.householder = householder
        self._inverse, self._inverse_t, self._lower, self._lower_inverse, self._half = (
            torch.zeros(self.layout.total, device=device) for _ in range(5)
        )
        self._last = torch.zeros(self.layout.total if householder else 0, device=device)

    def start(self, raw: Sequence[Tensor]) -> list[Solved]:
        out: list[Solved] = []
        for u in raw:
            q, t = (exact.householder if self.householder else exact.gram_schmidt)(u.double())
            identity = torch.eye(u.shape[-1], dtype=torch.float64, device=u.device).expand_as(t)
            out.append((q.float(), torch.linalg.solve_triangular(t.triu(), identity, upper=True).float()))
        self._keep(self.layout.packed([solved[1] for solved in out]))
        if self.householder:
            self._last.copy_(self.layout.packed([solved[0] for solved in out]))
        return out

    def _keep(self, inverse: Tensor, inverse_t: Tensor | None = None) -> None:
        self._inverse.copy_(inverse)
        if inverse_t is not None:
            self._inverse_t.copy_(inverse_t)
            return
        pairs = (self.layout.views(flat, self.shapes) for flat in (self._inverse_t, inverse))
        for view, matrix in zip(*pairs, strict=True):
            view.copy_(matrix.mT)

    def _from_last(self, raw: Sequence[Tensor]) -> list[Solved]:
        layout, device = self.layout, kernels()[2]
        u = layout.packed(list(raw))
        x, x_t = product(layout, u, self._inverse_t, store="both", end=2)
        gram, _ = product(layout, x_t, x_t, mirror=1)
        self._factorize(gram)
        self._invert()
        q, q_t = product(layout, x, self._lower_inverse, store="both", end=2)
        gram, _ = product(layout, q_t, q_t, mirror=1)
        worst = torch.zeros(len(layout.sizes), device=u.device)
        with torch.cuda.device_of(u):
            device.series_kernel[(len(layout.stripes),)](
                gram, x_t, worst, self.true_sizes, layout.stripes, layout.table, B=_BASE
            )
        close = worst < _CLOSE**2
        self.failed.copy_(self.failed | ~close)
        gate = torch.where(close, 1.0, torch.nan)
        q, _ = product(layout, q, x_t, q, alpha=-1.0, precise=False, end=2, gate=gate)
        inverse, inverse_t = product(
            layout, self._inverse, self._lower_inverse, store="both", upper=True, begin=1, end=2
        )
        if self.householder:
            self._turn(q, inverse, inverse_t)
        self._keep(inverse, inverse_t)
        return list(zip(layout.views(q, self.shapes), layout.views(inverse, self.shapes), strict=True))

    def _factorize(self, gram: Tensor) -> None:
        """L of every matrix; several small chains of launches, side by side."""
        grams, lowers = (self.layout.views(flat, self.shapes) for flat in (gram, self._lower))
        with side_by_side(len(grams), gram.device) as beside:
            for index, (matrix, lower) in enumerate(zip(grams, lowers, strict=True)):
                with beside(index):
                    lower.copy_(torch.linalg.cholesky_ex(matrix)[0])

    def _invert(self) -> None:
        layout, device = self.layout, kernels()[2]
        with torch.cuda.device_of(self._lower):
            device.diagonal_kernel[(len(layout.stripes),)](
                self._lower, self._lower_inverse, layout.stripes, layout.table, B=_BASE
            )
            for jobs in _levels(layout):
                first, second = jobs.unbind(0)
                tile = {"B": _TILE, "BK": _BASE, "num_warps": 4}
                device.block_kernel[(len(first),)](
                    self._lower, self._lower_inverse, self._half, first, layout.table, 1.0, **tile
                )
                device.block_kernel[(len(second),)](
                    self._lower_inverse, self._half, self._lower_inverse, second, layout.table, -1.0, **tile
                )

    def _turn(self, q: Tensor, inverse: Tensor, inverse_t: Tensor) -> None:
        """The sign of the last column with which Q keeps its determinant."""
        layout, device, count = self.layout, kernels()[2], len(self.layout.sizes)
        moved, flip = torch.zeros(count, device=q.device), torch.empty(count, device=q.device)
        rows = (len(layout.stripes),)
        with torch.cuda.device_of(q):
            device.moved_kernel[rows](
                self._last, q, moved, self.true_sizes, layout.stripes, layout.table, B=_BASE, LAST=_LAST
            )
            device.turn_kernel[(count,)](
                self._last, q, moved, flip, self.true_sizes, layout.table, LAST=_LAST, BK=_BASE, num_warps=4
            )
            device.flip_kernel[rows](
                q, inverse, inverse_t, flip, self.failed, self.true_sizes, layout.stripes, layout.table, B=_BASE
            )
        self._last.copy_(q)


def qr_from_skew(skews: list[Tensor], solved: list[Solved]) -> list[Tensor]:
    """dL/dU = Q·tril(N − Nᵀ, −1)·T⁻ᵀ of every stack, from N − Nᵀ with N = QᵀG: two products of them all."""
    layout = layout_of([skew.shape for skew in skews], skews[0].device)
    turned = layout.packed([skew.mT.triu(1) for skew in skews])
    q, inverse = (layout.whole(matrices) for matrices in zip(*solved, strict=True))
    half, _ = product(layout, q, turned, begin=2)
    out, _ = product(layout, half, inverse, begin=2)
    return layout.views(out, [skew.shape for skew in skews])


@functools.lru_cache(maxsize=16)
def _levels(layout: Layout) -> list[Tensor]:
    """The jobs of both products of each doubling, from blocks of 32 to the whole."""
    levels, block = [], _BASE
    while block < max(layout.padded):
        first, second = [], []
        for p, size in enumerate(layout.padded):
            for start in range(0, size - block, 2 * block):
                middle, end = start + block, min(start + 2 * block, size)
                for row in range(middle, end, _TILE):
                    for col in range(start, middle, _TILE):
                        first.append((p, row, col, end, middle, col, middle))
                        second.append((p, row, col, end, middle, middle, min(row + _TILE, end)))
        levels.append(torch.tensor([first, second], dtype=torch.int32).to(layout.table.device))
        block *= 2
    return levels
