"""The energy of many neurons on a GPU: Σ φ(c_ij) and its gradient in one sweep over strips of rows.

For each strip one kernel computes the cosines, Σφ and φ' (``device/energy.py``), and two products carry φ' to the rows
and to the columns. Only pairs above the diagonal are visited. Memory is a strip of φ' and the halves of the vectors:
linear in their number. The gradient's products take one of two forms:

- φ' and ŵ as sums of two bf16 numbers, three products: relative error about 3e-6, any range, any set.
- or, for large sets in many dimensions, one product of fp16 numbers. Their rounding (1e-4) then affects only the
  difference of φ' and its tangent a + b·c at the mean cosine; the tangent's share, a·Σŵ_j + b·(Σ ŵ_j ŵ_jᵀ)·ŵ_i, is
  computed in float64. Chosen if the variance of the cosines predicts a relative error below 1e-5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from .device.energy import close_pairs, find_close, tiles

_CLOSE = 0.25
# Squared distances q below this are computed from differences. The direction away from a close neighbour is the part of
# ŵ_j that is orthogonal to ŵ_i. Its length is only √q, so the relative error of the gradient's products grows by 1/√q.
_STRIP, _WIDTH = 2048, 2**17
_LARGE, _MANY = 16384, 128  # vectors and dimensions from which single products may be worth preparing
_SPREAD = 0.0145  # largest p(p+1)·var(c)/q̄² at which their error stays below 1e-5; p = s/2 + 1
_STEEP = 8.0  # the largest s whose slopes fit fp16
_PROGRAMS = 1024


class Pairing(NamedTuple):
    """What is summed over pairs: the settings of ``functional.energy.kernel.Kernel``."""

    s: float
    angular: bool
    half_space: bool
    floor: float


@dataclass
class _Shape:
    """Sizes of a tile. Tests in the interpreter set their own."""

    bm: int = 128
    bn: int = 256
    bk: int = 32
    warps: int = 8
    stages: int = 4
    part_m: int = 64  # of the tiles in which close pairs are searched
    part_n: int = 64


SHAPE = _Shape()


def sweep_energy(
    points: Tensor, beta: Tensor | None, pairing: Pairing, grad: bool, raw: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Return Σ_{i≠j} φ(c_ij) of float32 unit vectors (N, d) as float64, and its gradient.

    Only its part along the sphere is meaningful: close pairs contribute along ŵ_i − ŵ_j instead of ŵ_j, and these
    two differ radially. ``raw`` are the vectors before they were normalized, from which close pairs are computed.
    """
    points, raw = points.contiguous(), raw.contiguous()
    line = _tangent(points, pairing) if grad and beta is None and _may_be_single(points, pairing) else None
    count = len(points)
    halves = _Halves.of(points, grad, line is not None)
    work = _Work(points, points, beta, beta, pairing, grad, line, raw, raw)
    for start in range(0, count, _STRIP):
        rows = slice(start, min(start + _STRIP, count))
        for first in range(start, count, _WIDTH):
            work.strip(halves, halves, rows, slice(first, min(first + _WIDTH, count)), None)
    total = 2 * work.total()
    if not grad:
        return total, None
    gradient = work.grad_x
    if line is not None:
        gradient += line.share(points)
    return total, gradient.mul_(2)


def cross_energy(
    rows: Tensor, own: Tensor, points: Tensor, pairing: Pairing, grad: bool, raw_rows: Tensor, raw: Tensor
) -> tuple[Tensor, ...]:
    """Return Σ_i Σ_{j≠own_i} φ(x_i·ŵ_j) as float64, and the gradients of rows and points (empty without ``grad``).

    Args:
        rows: Unit vectors (m, d) in float32.
        own: For each row, the index of the point that it is not compared with; −1 leaves the row out.
        points: Unit vectors (N, d) in float32.
        pairing: The function φ and its settings.
        grad: Whether gradients are wanted.
        raw_rows: The rows before they were normalized.
        raw: The points before they were.
    """
    rows, points = rows.contiguous(), points.contiguous()
    left, right = _Halves.of(rows, grad, False), _Halves.of(points, grad, False)
    work = _Work(rows, points, None, None, pairing, grad, None, raw_rows.contiguous(), raw.contiguous())
    for start in range(0, len(rows), _STRIP):
        block = slice(start, min(start + _STRIP, len(rows)))
        for first in range(0, len(points), _WIDTH):
            work.strip(left, right, block, slice(first, min(first + _WIDTH, len(points))), own.to(torch.int32))
    return work.total(), work.grad_x, work.grad_y


@dataclass
class _Halves:
    """ŵ = h + l in fp16 for the cosines, padded to whole steps, and the parts used for the gradients."""

    high: Tensor
    low: Tensor
    parts: tuple[Tensor, ...]

    @staticmethod
    def of(points: Tensor, grad: bool, single: bool) -> _Halves:
        padded = torch.nn.functional.pad(points, (0, -points.shape[1] % SHAPE.bk))
        high = padded.half()
        low = (padded - high).half()
        parts: tuple[Tensor, ...] = ()
        if grad and single:
            parts = (high[:, : points.shape[1]],)
        elif grad:
            first = points.bfloat16()
            parts = (first, (points - first).bfloat16())
        return _Halves(high, low, parts)


class _Work:
    """Sums and buffers of one sweep."""

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        beta_x: Tensor | None,
        beta_y: Tensor | None,
        pairing: Pairing,
        grad: bool,
        line: _Line | None,
        raw_x: Tensor,
        raw_y: Tensor,
    ) -> None:
        self.raw = raw_x, raw_y
        self.x, self.y, self.beta_x, self.beta_y = x, y, beta_x, beta_y
        self.pairing, self.grad, self.line = pairing, grad, line
        self.same = x is y
        s, angular, half, floor = pairing
        self.constants: dict[str, int | bool] = {
            "S": int(s) if s in (0.0, 1.0, 2.0) else -1, "ANGULAR": angular, "HALF": half,
            "WEIGHTED": beta_x is not None, "GRAD": grad, "LINE": line is not None, "FAST": x.is_cuda,
        }  # fmt: skip
        self.numbers = s, math.sqrt(floor) if angular else floor, _CLOSE
        self.guard = floor > 0.9 * _CLOSE  # else the floor is below every distance that tiles compute
        self.capacity = min(128 * (len(x) + len(y)), len(x) * len(y), 2**29)
        self.pairs = torch.empty(self.capacity, 2, dtype=torch.int32, device=x.device)
        self.counter = torch.zeros(1, dtype=torch.int32, device=x.device)
        self.tangent = self.counter if line is None else line.numbers
        self.sums = torch.zeros((), dtype=torch.float64, device=x.device)
        self.grad_x = torch.zeros_like(x) if grad else x.new_empty(0)
        self.grad_y = self.grad_x if self.same or not grad else torch.zeros_like(y)
        self.stored = torch.float16 if line is not None else torch.bfloat16
        self.buffers = x.new_empty(0), x.new_empty(0)

    def strip(self, left: _Halves, right: _Halves, rows: slice, columns: slice, own: Tensor | None) -> None:
        """Compute the cosines of some rows with some columns, and add their share to the energy and its gradient."""
        height, width = rows.stop - rows.start, columns.stop - columns.start
        high, low = self._buffer(height, width)
        stride = high.stride(0) if self.grad else 0
        grid = triton.cdiv(height, SHAPE.bm) * triton.cdiv(width, SHAPE.bn)
        partial = self.x.new_empty(grid)
        marks = torch.empty(grid, dtype=torch.int32, device=self.x.device)
        lengths = (partial, partial)
        if self.beta_x is not None and self.beta_y is not None:
            lengths = self.beta_x[rows], self.beta_y[columns]
        kept = partial if own is None else own[rows]
        halves = left.high[rows], left.low[rows], right.high[columns], right.low[columns]
        sizes = height, width, rows.start, columns.start, left.high.shape[1]
        constants = self.constants | {"TRIANGLE": self.same, "BM": SHAPE.bm, "BN": SHAPE.bn, "BK": SHAPE.bk}
        tiles[(grid,)](
            *halves, *lengths, kept, self.tangent, high, low, partial, marks, *sizes, stride, *self.numbers,
            **constants, GUARD=self.guard, SPLIT=self.line is None, num_warps=SHAPE.warps, num_stages=SHAPE.stages,
        )  # fmt: skip
        self.sums += partial.sum(dtype=torch.float64)
        if self.grad:
            _add_products(self.grad_x[rows], (high, low), right.parts, columns, transpose=False)
            _add_products(self.grad_y[columns], (high, low), left.parts, rows, transpose=True)
        gradients = (self.grad_x[rows], self.grad_y[columns]) if self.grad else (partial, partial)
        find_close[(grid,)](
            *halves, self.x[rows], self.y[columns], *lengths, kept, self.tangent, marks, self.pairs, self.counter,
            self.sums, *gradients, *sizes, self.x.shape[1], self.capacity, *self.numbers, **constants,
            PART_M=SHAPE.part_m, PART_N=SHAPE.part_n, num_warps=4, num_stages=2,
        )  # fmt: skip

    def total(self) -> Tensor:
        """Σφ over all pairs visited. The shares of close pairs are added here, also to the gradients."""
        programs = _PROGRAMS if self.x.is_cuda else 2
        partial = torch.zeros(programs, dtype=torch.float64, device=self.x.device)
        lengths = (self.x, self.y)
        if self.beta_x is not None and self.beta_y is not None:
            lengths = self.beta_x, self.beta_y
        dim = self.x.shape[1]
        short = [1 / torch.linalg.vector_norm(raw, dim=1, dtype=torch.float64) for raw in self.raw]
        close_pairs[(programs,)](
            *self.raw, *short, *lengths, self.tangent, self.pairs, self.counter, partial, self.grad_x, self.grad_y,
            dim, self.capacity, *self.numbers, **self.constants, PROGRAMS=programs,
            BLOCK=min(triton.next_power_of_2(dim), 1024),
        )  # fmt: skip
        return self.sums + partial.sum()

    def _buffer(self, height: int, width: int) -> tuple[Tensor, Tensor]:
        """Memory for φ' of a strip, with aligned rows; all strips share it."""
        if not self.grad:
            return self.buffers
        stride = -(-width // 16) * 16
        if self.buffers[0].numel() < height * stride:
            first = torch.empty(height * stride, dtype=self.stored, device=self.x.device)
            self.buffers = first, first if self.line is not None else torch.empty_like(first)
        high, low = (flat[: height * stride].view(height, stride)[:, :width] for flat in self.buffers)
        return high, low


def _add_products(
    into: Tensor, slopes: tuple[Tensor, Tensor], parts: tuple[Tensor, ...], block: slice, *, transpose: bool
) -> None:
    """into += (φ'_high + φ'_low)·(first + second part of the vectors), omitting the product of the two small parts."""
    terms = [(slopes[0], part) for part in parts] + [(slopes[1], parts[0])] * (len(parts) > 1)
    for slope, part in terms:
        matrix = slope.t() if transpose else slope
        if into.is_cuda:
            torch.ops.aten.addmm.dtype_out(into, matrix, part[block], torch.float32, out=into)
        else:
            into.addmm_(matrix.float(), part[block].float())


# The tangent of φ' at the mean cosine ---------------------------------------------------------------


@dataclass
class _Line:
    """start + rise·c, Σŵ_j and Σ ŵ_j ŵ_jᵀ."""

    numbers: Tensor
    sum: Tensor
    moments: Tensor
    start: float
    rise: float

    def share(self, points: Tensor) -> Tensor:
        """Σ_{j≠i} (start + rise·c_ij)·ŵ_j of every i."""
        matrix = self.rise * self.moments
        matrix.diagonal().sub_(self.rise + self.start)  # without j = i
        shares = [(part.double() @ matrix + self.start * self.sum).float() for part in points.split(2**15)]
        return torch.cat(shares)


def _may_be_single(points: Tensor, pairing: Pairing) -> bool:
    """Whether the set is large enough to examine its cosines first, which is not possible while a graph is recorded."""
    large = points.shape[0] >= _LARGE and points.shape[1] >= _MANY and pairing.s <= _STEEP
    return large and not (points.is_cuda and torch.cuda.is_current_stream_capturing())


def _tangent(points: Tensor, pairing: Pairing) -> _Line | None:
    """The tangent, or None if the cosines vary too much for it."""
    count, dim = points.shape
    total = torch.zeros(dim, dtype=torch.float64, device=points.device)
    moments = torch.zeros(dim, dim, dtype=torch.float64, device=points.device)
    for part in points.split(2**15):
        wide = part.double()
        total += wide.sum(0)
        moments.addmm_(wide.t(), wide)
    own = moments.diagonal().sum()  # the number of vectors that are not zero
    pairs = count * (count - 1)
    middle, square = torch.stack(((total @ total - own) / pairs, (moments.square().sum() - own) / pairs)).tolist()
    variance, away = max(square - middle * middle, 0.0), 2 - 2 * abs(middle)
    p = pairing.s / 2 + 1
    if not away > 0.5 or not p * (p + 1) * variance <= _SPREAD * away * away:  # also where they are NaN
        return None
    slope, rise = _derivatives_at(middle, pairing)
    numbers = torch.tensor([slope - rise * middle, rise], dtype=torch.float32)
    return _Line(numbers.to(points.device), total, moments, *numbers.tolist())


def _derivatives_at(c: float, pairing: Pairing) -> tuple[float, float]:
    """φ'(c) and φ''(c)."""
    first, second = _one_sign(c, pairing)
    if pairing.half_space:
        mirrored = _one_sign(-c, pairing)
        first, second = first - mirrored[0], second + mirrored[1]
    return first, second


def _one_sign(c: float, pairing: Pairing) -> tuple[float, float]:
    s = pairing.s
    if not pairing.angular:
        q, factor = 2 - 2 * c, s if s else 1.0
        first = factor * q ** (-s / 2 - 1)
        return first, (s + 2) * first / q
    theta, sine = math.acos(c), math.sqrt(1 - c * c)
    slope = (s if s else 1.0) * theta ** (-s - 1)  # −f'(θ); φ' = slope / sine
    return slope / sine, ((s + 1) / theta / sine + c / sine**2) * slope / sine
