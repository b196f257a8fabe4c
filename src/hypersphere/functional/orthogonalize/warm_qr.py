"""Gram-Schmidt and Householder of many matrices from the triangular factor of the last step: nearly all of it products.

With T⁻¹ of the last step, X = U·T⁻¹ is near Q in all but its last columns, where Gram-Schmidt may turn by any angle
(after Adam's steps of 1e-3 its condition number is 2 to 5, where that of a Gaussian U is thousands). So the factor
LLᵀ = XᵀX = I + E is computed from E where E is small, to first order, and by a Cholesky factorization in the last
256 columns. Then

    Q = X·L⁻ᵀ,   T⁻¹ ← T⁻¹·L⁻ᵀ,   and both times I − triu(E, 1) − ½diag E with E = QᵀQ − I, which leaves E²

the last columns once more. Any triangular start gives the Q of U, as far as E is small; how small it is is looked at
twice in every step. Where it is too large, or NaN of a failed factorization, Q is NaN and ``failed`` says so.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from . import algorithms as exact
from . import iterations as iterative
from .beside import side_by_side
from .from_last import FromLast, Solved
from .grouped import TILE, Layout, kernels, layout_of, product

__all__ = ["WarmQR", "qr_from_skew"]

_CLOSE, _LAST_CLOSE = 1e-3, 2e-2  # norms of a row of tril E that the correction takes; in the last tile, which gets two
_TURNING = 32  # columns of Q that may turn by any angle without losing the sign of its determinant
_TRAIL, _TILE, _BASE = 256, 64, 32


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

    def start(self, index: int, u: Tensor) -> Solved:
        q, t = (exact.householder if self.householder else iterative.cholesky_qr)(u.double())
        identity = torch.eye(u.shape[-1], dtype=torch.float64, device=u.device).expand_as(t)
        inverse = torch.linalg.solve_triangular(t.triu(), identity, upper=True).float()
        self._view(self._inverse, index).copy_(inverse)
        self._view(self._inverse_t, index).copy_(inverse.mT)
        if self.householder:
            self._view(self._last, index).copy_(q)
        return q.float(), inverse

    def _from_last(self, raw: Sequence[Tensor]) -> list[Solved]:
        layout = self.layout
        u = layout.packed(list(raw))
        x, x_t = product(layout, u, self._inverse_t, store="both", end=2)
        gram, _ = product(layout, x_t, x_t, mirror=1)
        z = self._factor(gram)  # L⁻¹
        q, q_t = product(layout, x, z, store="both", end=2)
        inverse, inverse_t = product(layout, self._inverse, z, store="both", upper=True, begin=1, end=2)
        product(layout, q_t, q_t, mirror=1, out=gram)
        worst = self._series(gram, x_t, layout.stripes, _CLOSE, _LAST_CLOSE)
        q, q_t = product(layout, q, x_t, q, alpha=-1.0, precise=False, end=2, store="both")
        inverse, inverse_t = product(
            layout, inverse, x_t, inverse, alpha=-1.0, precise=False, store="both", upper=True, begin=1, end=2
        )
        rows, columns, stripes = _last_tiles(layout)
        product(layout, q_t, q_t, tiles=rows, out=gram)
        again = self._series(gram, x_t, stripes, _CLOSE, _CLOSE)
        close = (worst < 1.0) & (again < 1.0)
        self.failed.copy_(self.failed | ~close)
        gate = torch.where(close, 1.0, torch.nan)
        last = {"alpha": -1.0, "precise": False, "tiles": columns}
        product(layout, q, x_t, q, end=2, out=q, gate=gate, **last)
        product(layout, inverse, x_t, inverse, begin=1, end=2, out=inverse, out_t=inverse_t, store="both", **last)
        if self.householder:
            self._turn(q, inverse, inverse_t)
        self._inverse.copy_(inverse)
        self._inverse_t.copy_(inverse_t)
        return list(zip(layout.views(q, self.shapes), layout.views(inverse, self.shapes), strict=True))

    def _series(self, gram: Tensor, out: Tensor, stripes: Tensor, few: float, many: float, one: float = 0.0) -> Tensor:
        layout = self.layout
        worst = torch.zeros(len(layout.sizes), device=gram.device)
        if not len(stripes):
            return worst
        with torch.cuda.device_of(gram):
            kernels()[2].series_kernel[(len(stripes),)](
                gram, out, worst, self.true_sizes, stripes, layout.table, few, many, one, B=_BASE, BM=TILE["BM"]
            )
        return worst

    def _factor(self, gram: Tensor) -> Tensor:
        """L⁻¹ with LLᵀ = G: I − tril(E, −1) − ½diag E but for the last rows, which come from a Cholesky factor.

        With G = [[A, ·], [B, C]] and Z₁ the inverse factor of A: L₂₁ = BZ₁ᵀ, L₂₂L₂₂ᵀ = C − L₂₁L₂₁ᵀ, Z₂ = L₂₂⁻¹ and
        Z₂₁ = −Z₂L₂₁Z₁.
        """
        lower, z, half, plan = self._lower, self._lower_inverse, self._half, _plan(self.layout)
        self._series(gram, z, plan.lead, 1.0, 1.0, one=1.0)
        self._blocks(gram, z, lower, plan.left, turned=True)
        self._blocks(lower, lower, lower, plan.schur, alpha=-1.0, turned=True, addend=gram)
        corners = list(_corners(self.layout, lower, self.shapes))
        with side_by_side(len(corners), gram.device) as beside:
            for index, corner in enumerate(corners):
                with beside(index):
                    corner.copy_(torch.linalg.cholesky_ex(corner)[0])
        with torch.cuda.device_of(gram):
            kernels()[2].diagonal_kernel[(len(plan.trail),)](lower, z, plan.trail, self.layout.table, B=_BASE, num_warps=1)
        for first, second in plan.doublings:
            self._blocks(lower, z, half, first)
            self._blocks(z, half, z, second, alpha=-1.0)
        self._blocks(lower, z, half, plan.middle)
        self._blocks(z, half, z, plan.right, alpha=-1.0)
        return z

    def _blocks(
        self,
        a: Tensor,
        b: Tensor,
        out: Tensor,
        jobs: Tensor,
        alpha: float = 1.0,
        turned: bool = False,
        addend: Tensor | None = None,
    ) -> None:
        if len(jobs):
            with torch.cuda.device_of(a):
                kernels()[2].block_kernel[(len(jobs),)](
                    a, b, a if addend is None else addend, out, jobs, self.layout.table, alpha,
                    B=_TILE, BK=_BASE, TURNED=turned, ADDEND=addend is not None, num_warps=4,
                )  # fmt: skip

    def _turn(self, q: Tensor, inverse: Tensor, inverse_t: Tensor) -> None:
        """The sign of the last column with which Q keeps its determinant."""
        layout, device, count = self.layout, kernels()[2], len(self.layout.sizes)
        moved, flip = torch.zeros(count, device=q.device), torch.empty(count, device=q.device)
        rows = (len(layout.stripes),)
        with torch.cuda.device_of(q):
            device.moved_kernel[rows](
                self._last, q, moved, self.true_sizes, layout.stripes, layout.table, B=_BASE, LAST=_TURNING
            )
            device.turn_kernel[(count,)](
                self._last, q, moved, flip, self.true_sizes, layout.table, LAST=_TURNING, BK=_BASE, num_warps=1
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


class _Plan:
    """What of each matrix is done in which launch: its first rows, and the last 256, where the Cholesky factor is."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        leads = [max(0, size - _TRAIL) for size in layout.padded]
        stripes = layout.stripes.tolist()
        self.lead = self._integers([row for row in stripes if row[1] < leads[row[0]] // _BASE], 3)
        self.trail = self._integers([row for row in stripes if row[1] >= leads[row[0]] // _BASE], 3)
        left, schur, middle, right = [], [], [], []
        for p, (size, lead) in enumerate(zip(layout.padded, leads, strict=True)):
            for row in range(lead, size, _TILE):
                for col in range(0, lead, _TILE):
                    left.append((p, row, col, size, lead, 0, min(col + _TILE, lead)))
                    middle.append((p, row, col, size, lead, col, lead))
                    right.append((p, row, col, size, lead, lead, min(row + _TILE, size)))
                schur += [(p, row, col, size, size, 0, lead) for col in range(lead, size, _TILE)]
        self.left, self.schur, self.middle, self.right = (self._integers(jobs, 7) for jobs in (left, schur, middle, right))
        self.doublings = list(self._doublings(leads))

    def _doublings(self, leads: list[int]) -> Iterator[tuple[Tensor, Tensor]]:
        """Both products of each doubling of the blocks on the diagonal: with [[A, 0], [B, C]], −C⁻¹(BA⁻¹)."""
        block = _BASE
        while block < _TRAIL:
            first, second = [], []
            for p, (size, lead) in enumerate(zip(self.layout.padded, leads, strict=True)):
                for start in range(lead, size - block, 2 * block):
                    middle, end = start + block, min(start + 2 * block, size)
                    for row in range(middle, end, _TILE):
                        for col in range(start, middle, _TILE):
                            first.append((p, row, col, end, middle, col, middle))
                            second.append((p, row, col, end, middle, middle, min(row + _TILE, end)))
            yield self._integers(first, 7), self._integers(second, 7)
            block *= 2

    def _integers(self, rows: Sequence[Sequence[int]], width: int) -> Tensor:
        return torch.tensor(rows, dtype=torch.int32).reshape(-1, width).to(self.layout.table.device)


_plan = functools.lru_cache(maxsize=16)(_Plan)


@functools.lru_cache(maxsize=16)
def _last_tiles(layout: Layout) -> tuple[Tensor, Tensor, Tensor]:
    """The last row of tiles of each matrix, its last column of tiles, and the stripes of that row."""
    tiles, block = layout.tiles.tolist(), TILE["BM"]
    last = [(size - 1) // block for size in layout.padded]
    chosen = (
        [tile for tile in tiles if tile[1] == last[tile[0]]],
        [tile for tile in tiles if tile[2] == last[tile[0]]],
        [row for row in layout.stripes.tolist() if row[1] * _BASE >= last[row[0]] * block],
    )
    rows, columns, stripes = (torch.tensor(each, dtype=torch.int32).to(layout.table.device) for each in chosen)
    return rows, columns, stripes


def _corners(layout: Layout, flat: Tensor, shapes: Sequence[torch.Size]) -> Iterator[Tensor]:
    """The last rows and columns of every matrix of the stacks, without padding."""
    for matrices in layout.views(flat, shapes):
        lead = max(0, -(-matrices.shape[-1] // _BASE) * _BASE - _TRAIL)
        for matrix in matrices.flatten(0, -3).unbind(0):
            yield matrix[lead:, lead:]


