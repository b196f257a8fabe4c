"""Gram-Schmidt and Householder of many matrices from the triangular factor of the last step, mostly by products.

With T⁻¹ of the last step, X = U·T⁻¹ is near Q in all but its last columns, where Gram-Schmidt may turn by any angle.
T⁻¹ ← T⁻¹·Z with the inverse Cholesky factor Z of XᵀX = I + E makes X orthonormal, and where E is small, Z is

    I − triu(E, 1) − ½diag E,   with an error of E²

This is done three times: once in TF32, because any triangular matrix near T⁻¹ is good enough as a start; then from U in
full precision, with a Cholesky factorization in the last 64 to 128 columns, where E is not small; then for the
remaining error. E is then checked. If it is too large, or NaN because a factorization failed, Q is NaN and ``failed``
is set.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ...kernels import device as kernels
from . import algorithms as exact
from . import iterations as iterative
from .algorithms import is_captured
from .beside import side_by_side
from .from_last import FromLast, Solved
from .grouped import TILE, Layout, product
from .rows import Beside, skew_product

_CLOSE = 1.4e-3  # the largest row norm of tril E: the last correction leaves at most 2·_CLOSE² = 4e-6 in QᵀQ − I
_TURNING = 32  # columns of Q that may turn by any angle; the sign of the determinant is still found
_TILE, _BASE = 64, 32


class WarmQR(FromLast):
    """The map and its state; ``householder`` keeps the determinant of Q, as Algorithm 3 does, instead of diag T > 0."""

    kind = "qr"

    def __init__(self, shapes: Sequence[torch.Size], device: torch.device, householder: bool = False) -> None:
        super().__init__(shapes, device)
        self.householder = householder
        self._inverse, self._inverse_t, self._lower, self._lower_inverse, self._half, self._solved = (
            torch.zeros(self.layout.total, device=device) for _ in range(6)
        )
        # T⁻¹ after the first and after the second pass, with their transposes: what is 0 in them is never written
        self._passes = [tuple(torch.zeros(self.layout.total, device=device) for _ in range(2)) for _ in range(2)]
        self._last = torch.zeros(self.layout.total if householder else 0, device=device)

    def start(self, index: int, u: Tensor) -> Solved:
        q, t = (exact.householder if self.householder else iterative.cholesky_qr)(u.double())
        identity = torch.eye(u.shape[-1], dtype=torch.float64, device=u.device).expand_as(t)
        inverse = torch.linalg.solve_triangular(t.triu(), identity, upper=True).float()
        self._put(self._inverse, index, inverse)
        self._put(self._inverse_t, index, inverse.mT)
        if self.householder:
            self._put(self._last, index, q)
        return q.float(), inverse

    def _from_last(self, raw: Sequence[Tensor]) -> list[Solved]:
        layout = self.layout
        _, _, lead, trail = _places(layout)
        u = layout.packed(list(raw))
        low: dict[str, Any] = {"precise": False}
        _, x_t = product(layout, u, self._inverse_t, store="transposed", end=2, **low)
        gram, _ = product(layout, x_t, x_t, mirror=1, **low)
        z = self._lower_inverse
        self._series(gram, z, lead, one=1.0)
        self._series(gram, z, trail, one=2.0)
        triangular: dict[str, Any] = {"store": "both", "upper": True, "begin": 1, "end": 2}
        start, start_t = self._passes[0]
        product(layout, self._inverse, z, out=start, out_t=start_t, **triangular, **low)
        x, x_t = product(layout, u, start_t, store="both", end=2)
        product(layout, x_t, x_t, mirror=1, out=gram)
        self._factor(gram)
        q, q_t = product(layout, x, z, store="both", end=2)
        inverse, inverse_t = self._passes[1]
        product(layout, start, z, out=inverse, out_t=inverse_t, **triangular)
        product(layout, q_t, q_t, mirror=1, out=gram)  # I + E
        close = self._series(gram, x_t, layout.stripes) < _CLOSE**2
        self.failed.copy_(self.failed | ~close)
        gate = torch.where(close, 1.0, torch.nan)
        low["alpha"] = -1.0
        q, _ = product(layout, q, x_t, q, end=2, gate=gate, **low)
        captured = is_captured(q)  # then the backward pass of a step is over before the next one writes to its result
        own: dict[str, Any] = {"out": self._inverse, "out_t": self._inverse_t} if captured else {}
        inverse, inverse_t = product(layout, inverse, x_t, inverse, **own, **triangular, **low)
        if self.householder:
            self._turn(q, inverse, inverse_t)
        if not captured:
            self._inverse.copy_(inverse)
            self._inverse_t.copy_(inverse_t)
        return list(zip(layout.views(q, self.shapes), layout.views(inverse, self.shapes), strict=True))

    def _series(self, gram: Tensor, out: Tensor, stripes: Tensor, one: float = 0.0) -> Tensor:
        """The transposed correction factor of Q, and how large it is (see the kernel)."""
        layout = self.layout
        worst = torch.zeros(len(layout.sizes), device=gram.device)
        if not len(stripes):
            return worst
        with torch.cuda.device_of(gram):
            kernels.triangular.series_kernel[(len(stripes),)](
                gram, out, worst, self.layout.true_sizes, stripes, layout.table, one, B=_BASE, BM=TILE["BM"]
            )
        return worst

    def _factor(self, gram: Tensor) -> None:
        """L⁻¹ with LLᵀ = G = I + E: I − tril(E, −1) − ½diag E except in the last tile, which has a Cholesky factor.

        With G = [[A, ·], [B, C]], A near I and W = B(2I − A) near BA⁻¹: L₂₂L₂₂ᵀ = C − WBᵀ, and the last rows of L⁻¹ are
        L₂₂⁻¹[−W, I].
        """
        lower, z, solved, layout = self._lower, self._lower_inverse, self._solved, self.layout
        rows, corners, lead, trail = _places(layout)
        self._series(gram, z, lead, one=1.0)
        product(layout, gram, gram, gram, alpha=-1.0, beta=2.0, end=3, tiles=rows, out=solved)
        product(layout, solved, gram, gram, alpha=-1.0, end=3, tiles=corners, out=lower)
        blocks = list(_corners(layout, lower, self.shapes))
        with side_by_side(len(blocks), gram.device) as beside:
            for index, block in enumerate(blocks):
                with beside(index):
                    block.copy_(torch.linalg.cholesky_ex(block)[0])
        with torch.cuda.device_of(gram):
            kernels.triangular.diagonal_kernel[(len(trail),)](lower, z, trail, layout.table, B=_BASE, num_warps=1)
        *doublings, left = _jobs(layout)
        for first, second in zip(doublings[::2], doublings[1::2], strict=True):
            self._blocks(lower, z, self._half, first, 1.0)
            self._blocks(z, self._half, z, second, -1.0)
        self._blocks(z, solved, z, left, -1.0)

    def _blocks(self, a: Tensor, b: Tensor, out: Tensor, jobs: Tensor, alpha: float) -> None:
        if len(jobs):
            with torch.cuda.device_of(a):
                kernels.triangular.block_kernel[(len(jobs),)](
                    a, b, out, jobs, self.layout.table, alpha, B=_TILE, BK=_BASE, num_warps=4
                )

    def _turn(self, q: Tensor, inverse: Tensor, inverse_t: Tensor) -> None:
        """Choose the sign of the last column with which Q keeps its determinant."""
        layout, count = self.layout, len(self.layout.sizes)
        moved, flip = torch.zeros(count, device=q.device), torch.empty(count, device=q.device)
        rows = (len(layout.stripes),)
        with torch.cuda.device_of(q):
            kernels.triangular.moved_kernel[rows](
                self._last, q, moved, self.layout.true_sizes, layout.stripes, layout.table, B=_BASE, LAST=_TURNING
            )
            kernels.triangular.turn_kernel[(count,)](
                self._last, q, moved, flip, self.layout.true_sizes, layout.table, LAST=_TURNING, BK=_BASE, num_warps=1
            )
            kernels.triangular.flip_kernel[rows](
                q, inverse, inverse_t, flip, self.failed, self.layout.true_sizes, layout.stripes, layout.table, B=_BASE
            )
        self._last.copy_(q)


def qr_gradient(beside: Beside, solved: Sequence[Solved]) -> list[Tensor]:
    """dL/dU = Q·tril(N − Nᵀ, −1)·T⁻ᵀ of every stack, N = QᵀG = PᵀV: two products for all stacks."""
    layout = beside.rows.layout
    q, inverse = (layout.whole(matrices) for matrices in zip(*solved, strict=True))
    half, _ = product(layout, q, skew_product(beside.rows, beside.p, beside.v, "upper"), begin=2)
    out, _ = product(layout, half, inverse, begin=2)
    return layout.views(out, [one[0].shape for one in solved])


@functools.cache  # never given back: a CUDA graph may read them
def _places(layout: Layout) -> tuple[Tensor, ...]:
    """For each matrix: its last row of tiles and the corner tile; the stripes before that row, and those in it."""
    tiles, stripes, last = layout.tiles.tolist(), layout.stripes.tolist(), _last(layout)
    chosen = (
        [tile for tile in tiles if tile[1] == last[tile[0]]],
        [tile for tile in tiles if tile[1] == tile[2] == last[tile[0]]],
        [row for row in stripes if row[1] * _BASE < last[row[0]] * TILE["BM"]],
        [row for row in stripes if row[1] * _BASE >= last[row[0]] * TILE["BM"]],
    )
    return tuple(_integers(rows, 3, layout) for rows in chosen)


@functools.cache  # never given back: a CUDA graph may read them
def _jobs(layout: Layout) -> list[Tensor]:
    """Both products of each doubling of the inverse inside the corners, then the product for the part left of them.

    With [[A, 0], [B, C]], the inverse has −C⁻¹(BA⁻¹).
    """
    out, block = [], _BASE
    starts = [last * TILE["BM"] for last in _last(layout)]
    while block < TILE["BM"]:
        first, second = [], []
        for p, (size, lead) in enumerate(zip(layout.padded, starts, strict=True)):
            for start in range(lead, size - block, 2 * block):
                middle, end = start + block, min(start + 2 * block, size)
                for row in range(middle, end, _TILE):
                    for col in range(start, middle, _TILE):
                        first.append((p, row, col, end, middle, col, middle))
                        second.append((p, row, col, end, middle, middle, min(row + _TILE, end)))
        out += [_integers(first, 7, layout), _integers(second, 7, layout)]
        block *= 2
    left = [
        (p, row, col, size, lead, lead, min(row + _TILE, size))
        for p, (size, lead) in enumerate(zip(layout.padded, starts, strict=True))
        for row in range(lead, size, _TILE)
        for col in range(0, lead, _TILE)
    ]
    return [*out, _integers(left, 7, layout)]


def _last(layout: Layout) -> list[int]:
    """The number of the last row of tiles of each matrix."""
    return [(size - 1) // TILE["BM"] for size in layout.padded]


def _integers(rows: Sequence[Sequence[int]], width: int, layout: Layout) -> Tensor:
    return torch.tensor(rows, dtype=torch.int32).reshape(-1, width).to(layout.table.device)


def _corners(layout: Layout, flat: Tensor, shapes: Sequence[torch.Size]) -> Iterator[Tensor]:
    """The last tile of every matrix of the stacks, without padding."""
    starts = iter([last * TILE["BM"] for last in _last(layout)])
    for matrices in layout.views(flat, shapes):
        for matrix in matrices.flatten(0, -3).unbind(0):
            start = next(starts)
            yield matrix[start:, start:]
