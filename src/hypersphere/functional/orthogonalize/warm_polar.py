"""Löwdin's map of many matrices from the polar factor of the last step, by products, most of them in half precision.

U = RH. A training step moves R little, R ← R·exp Ω, even where it changes small singular values by more than their
size: Newton's equation is HΩ + ΩH = RᵀU − UᵀR, whose solution in the eigenbasis V of H divides by σᵢ + σⱼ. The V and σ
of the last step are close enough for the whole next step: two iterations leave no more error in R than a float32
singular value decomposition. V is only a preconditioner, so its products may have the 11 bits of float16; residuals are
computed in split TF32. Afterwards V is turned towards the eigenbasis of the new H, to first order. This is skipped for
singular values that are too close together, where it is not needed. The same V solves the gradient's equation,
HL + LH = RᵀG − GᵀR, with one correction of the remaining error.

The sizes of the last Ω and of RᵀR − I are checked in every step, and that H has no negative eigenvalue: where a
singular value goes through 0, the iteration would follow the R with det R of before. If a check fails, or is NaN, R is
NaN and ``failed`` is set. For a negative eigenvalue the R that is right, R(I − 2vvᵀ), is a reflection away.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...kernels import device as kernels
from .algorithms import is_captured
from .from_last import FromLast, Solved
from .grouped import TILE, WARPS, Layout, product
from .iterations import polynomial_polar
from .rows import Beside, skew_product

_HALF = torch.float16
_FIRST, _SECOND = 2.0**10, 2.0**16  # scales of the two iterations' residuals, so that they fit float16
_TURN = 2.0**8  # scale of Ω
_POLISH = 2.0**12  # scale of I − RᵀR
_GRADIENT, _REST = 2.0**-6, 2.0**6  # scales of L, and of the residual after the first solution of its equation
_CLOSE, _ORTHOGONAL = 2e-3, 1e-3  # largest row norms: of the second Ω, and of ½(I − RᵀR)
_SHARE, _FLOOR = 0.1, 1e-7
_FEW = 8  # singular values that may go through 0 in one step
_NEGATIVE = 1e-6  # eigenvalues of H below minus this are negative; the largest is about 1


class WarmPolar(FromLast):
    """The map and its memory."""

    kind = "polar"

    def __init__(self, shapes: Sequence[torch.Size], device: torch.device) -> None:
        super().__init__(shapes, device)
        total, count = self.layout.total, len(self.layout.sizes)
        self._u_t, self._r, self._r_t = (torch.zeros(total, device=device) for _ in range(3))  # −_FIRST·scale·Uᵀ, R, Rᵀ
        self._v, self._v_t = (torch.zeros(total, dtype=_HALF, device=device) for _ in range(2))
        self._sigma = torch.zeros(self.layout.rows, device=device)
        self._scale = torch.ones(count, device=device)  # scale of U, so that its singular values are at most about 1

    def forget(self) -> None:
        super().forget()
        self._sigma.zero_()

    def start(self, index: int, u: Tensor) -> Solved:
        r, h = polynomial_polar(u.double())
        sigma, v = torch.linalg.eigh(h)
        scale = 1.0 / sigma.amax(-1).clamp_min(1e-30)
        small = scale[..., None, None]
        scales = self._stacks(self._scale)[index][0]
        scales.copy_(scale.flatten())
        matrices = (
            (self._u_t, (u * small).mT * -_FIRST),
            (self._r, r),
            (self._r_t, r.mT),
            (self._v, v),
            (self._v_t, v.mT),
        )
        for flat, matrix in matrices:
            self._put(flat, index, matrix)
        sigma = sigma.clamp_min(0.0) * small[..., 0]
        _rows(self.layout, self._sigma, self.shapes)[index].copy_(sigma)
        return r.float(), (h * small).float(), v.to(_HALF), v.mT.to(_HALF), sigma.float(), scales.clone()

    def _from_last(self, raw: Sequence[Tensor]) -> list[Solved]:
        layout, captured = self.layout, is_captured(self._scale)
        moved, last, scale = layout.empty(self._r, _HALF), self._u_t, self._scale * -_FIRST
        pairs = zip(layout.views(moved, self.shapes), layout.views(last, self.shapes), strict=True)
        for (change, old), u, (factor, shape) in zip(pairs, raw, self._stacks(scale), strict=True):
            factor = factor.view(*shape[:-2], 1, 1)
            torch.addcmul(old, u.mT, factor, value=-1.0, out=change)  # _FIRST·scale·(U − U_last)ᵀ
            torch.mul(u.mT, factor, out=old)

        half = self._r.to(_HALF)
        k, _ = product(layout, self._r_t.to(_HALF), moved, dtype=_HALF)  # Rᵀ(U − U_last)
        turn = self._newton(_skew_part(layout, k, 1.0, _HALF), _FIRST)
        _, turn_t = product(layout, turn, turn, turn, alpha=-0.5 / _TURN, store="transposed", dtype=_HALF)  # Ω + ½Ω²
        r, r_t = product(layout, half, turn_t, self._r, alpha=1.0 / _TURN, store="both")

        k, _ = product(layout, r_t, last, alpha=-1.0 / _FIRST)
        turn = self._newton(_skew_part(layout, k, _SECOND, _HALF), _SECOND)
        worst = _largest_row(layout, turn, 1.0 / _TURN)
        failed = ~(worst < _CLOSE**2)
        half = r.to(_HALF)
        r, r_t = product(layout, half, turn, r, alpha=-1.0 / _TURN, store="both")
        k, _ = product(layout, turn, k.to(_HALF), k, alpha=-1.0 / _TURN)  # (I − Ω)K, because K is nearly symmetric
        whole = layout.empty(k)
        _halves(layout, k, whole, whole, 1.0, 2)

        negative = torch.zeros_like(self.failed)
        self._refresh(whole, negative)
        away, _ = product(layout, r_t, r_t, alpha=-0.5 * _POLISH, gamma=0.5 * _POLISH, mirror=1, dtype=_HALF)
        failed |= ~(_largest_row(layout, away, 1.0 / _POLISH) < _ORTHOGONAL**2) | (negative > 0)
        self.failed.copy_(self.failed | failed)
        gate = torch.where(failed, torch.nan, 1.0)
        product(
            layout, half, away, r, alpha=1.0 / _POLISH, store="both", gate=gate, gates=2, out=self._r, out_t=self._r_t
        )  # fmt: skip
        return self._solved(whole, captured)

    def _again(self, raw: Sequence[Tensor], solved: Sequence[Solved]) -> list[Solved]:
        if any(self.failed.tolist()) and self._reflect(raw):
            self.failed.zero_()
            solved = self._from_last(raw)
        return super()._again(raw, solved)

    def _reflect(self, raw: Sequence[Tensor]) -> bool:
        """R ← R(I − 2vvᵀ) for the eigenvectors v of H with negative eigenvalues; whether there are any."""
        sigmas, scales = _rows(self.layout, self._sigma, self.shapes), [one for one, _ in self._stacks(self._scale)]
        v, r_t = (self.layout.views(flat, self.shapes) for flat in (self._v, self._r_t))
        counts = torch.stack([(sigma < 0).sum() for sigma in sigmas]).tolist()
        found = [0 < count <= _FEW for count in counts]  # more of them are no step, but a jump
        for index, stack in enumerate(sigmas):
            if not found[index]:
                continue
            turned = r_t[index].double().flatten(0, -3)
            stacks = (v[index].flatten(0, -3), raw[index].flatten(0, -3), stack.flatten(0, -2), scales[index])
            for basis, u, sigma, scale, one in zip(*stacks, turned, strict=True):
                near = _eigenvectors(basis.double(), sigma.double(), one, scale * u.double())
                one -= 2 * near @ (near.mT @ one)
            turned = turned.view_as(r_t[index])
            self._put(self._r_t, index, turned)
            self._put(self._r, index, turned.mT)
            stack.abs_()
        return any(found)

    def _solved(self, whole: Tensor, captured: bool) -> list[Solved]:
        """R, H, V, Vᵀ, σ and the scale of H, as views of buffers that no later step writes to.

        While a graph is recorded they may be the memory itself: a step's backward pass is over before the next step.
        """
        layout, shapes = self.layout, self.shapes
        memory = (self._r, self._v, self._v_t, self._sigma, self._scale)
        r, v, v_t, sigma, scale = memory if captured else (flat.clone() for flat in memory)
        matrices = (layout.views(flat, shapes) for flat in (r, whole, v, v_t))
        return list(zip(*matrices, _rows(layout, sigma, shapes), [one for one, _ in self._stacks(scale)], strict=True))

    def _stacks(self, numbers: Tensor) -> list[tuple[Tensor, torch.Size]]:
        """One number per matrix, stack by stack."""
        counts = [shape[:-2].numel() for shape in self.shapes]
        return list(zip(numbers.split(counts), self.shapes, strict=True))

    def _newton(self, skew: Tensor, factor: float) -> Tensor:
        """Ω from ``factor``·(RᵀU − UᵀR), times _TURN."""
        return _divided(self.layout, skew, self._v, self._v_t, self._sigma, _TURN / factor, _HALF)

    def _refresh(self, whole: Tensor, negative: Tensor) -> None:
        """V turned towards the eigenbasis of H, and σ; ``negative`` becomes 1 for matrices where one of them is."""
        layout, half = self.layout, whole.to(_HALF)
        _, y_t = product(layout, half, self._v_t, store="transposed", dtype=_HALF)
        rest = torch.sub(whole, half, out=torch.empty_like(half))  # with it the smallest σ have a sign
        _, y_t = product(layout, rest, self._v_t, y_t, transposed_addend=True, store="transposed", dtype=_HALF)
        b, _ = product(layout, self._v_t, y_t, mirror=1)
        turn = layout.empty(b, _HALF)
        with torch.cuda.device_of(b):
            kernels.polar.basis_kernel[(len(layout.stripes),)](
                b, turn, self._sigma, negative, layout.stripes, layout.table, _SHARE, _FLOOR, _NEGATIVE, B=32
            )
        _, turn_t = product(layout, turn, turn, turn, alpha=-0.5, store="transposed", dtype=_HALF)
        v, v_t = product(layout, self._v, turn_t, self._v, store="both", dtype=_HALF)
        away, _ = product(layout, v_t, v_t, alpha=-0.5, gamma=0.5, mirror=1, dtype=_HALF)
        product(layout, v, away, v, store="both", out=self._v, out_t=self._v_t)


def _eigenvectors(v: Tensor, sigma: Tensor, r_t: Tensor, u: Tensor) -> Tensor:
    """Orthonormal eigenvectors of the symmetric H = RᵀU for its negative eigenvalues, from the columns of V near them.

    One correction v ← v − Σₖ vₖ(vₖᵀ(H − λ)v)/(σₖ − λ) over the other columns.
    """
    chosen = sigma < 0
    near = v[:, chosen]
    y = r_t @ (u @ near)
    values = (near * y).sum(0) / near.square().sum(0)
    gaps = torch.where(chosen, torch.inf, sigma)[:, None] - values
    return torch.linalg.qr(near - v @ ((v.mT @ (y - near * values)) / gaps))[0]


def polar_gradient(beside: Beside, solved: Sequence[Solved]) -> list[Tensor]:
    """dL/dU = R·L with HL + LH = K of every stack, K = N − Nᵀ, N = RᵀG = PᵀV."""
    shapes = [one[0].shape for one in solved]
    layout = beside.rows.layout
    r, whole, v, v_t = (layout.whole(matrices) for matrices in tuple(zip(*solved, strict=True))[:4])
    sigma = torch.zeros(layout.rows, device=r.device)
    torch._foreach_copy_(_rows(layout, sigma, shapes), [one[4] for one in solved])
    k = skew_product(beside.rows, beside.p, beside.v)
    half, square = torch.empty_like(k, dtype=_HALF), _largest_row(layout, k, 1.0)
    with torch.cuda.device_of(k):
        kernels.polar.unit_kernel[(len(layout.stripes),)](k, half, square, layout.stripes, layout.table, B=32)
    l = _divided(layout, half, v, v_t, sigma, _GRADIENT, torch.float32)
    left, _ = product(layout, whole, l, alpha=-1.0 / _GRADIENT)  # HL; since Lᵀ = −L, HL + LH = HL − (HL)ᵀ
    rest = torch.add(_skew_part(layout, left, -_REST, torch.float32), k, alpha=_REST, out=torch.empty_like(half))
    l.add_(_divided(layout, rest, v, v_t, sigma, _GRADIENT, torch.float32), alpha=1.0 / _REST)
    scale = torch.cat([one[5].flatten() for one in solved])
    out, _ = product(layout, r, l, alpha=-1.0 / _GRADIENT, gate=square.sqrt() * scale)  # R·L
    return layout.views(out, shapes)


def _largest_row(layout: Layout, x: Tensor, factor: float) -> Tensor:
    """The largest squared row norm of ``factor``·X of each matrix."""
    worst = torch.zeros(len(layout.sizes), device=x.device)
    with torch.cuda.device_of(x):
        kernels.polar.rows_kernel[(len(layout.stripes),)](
            x, worst, layout.true_sizes, layout.stripes, layout.table, factor, B=32
        )
    return worst


def _divided(
    layout: Layout, skew: Tensor, v: Tensor, v_t: Tensor, sigma: Tensor, factor: float, dtype: torch.dtype
) -> Tensor:
    """``factor``·V[(VᵀSV)ᵢⱼ/(σᵢ + σⱼ)]Vᵀ, skew like S."""
    _, y_t = product(layout, skew, v_t, store="transposed", dtype=_HALF)
    inner, _ = product(layout, v_t, y_t, alpha=factor, mirror=-1, sigma=sigma, dtype=_HALF)
    y, _ = product(layout, v, inner, alpha=-1.0, dtype=_HALF)
    out, _ = product(layout, y, v, mirror=-1, dtype=dtype)
    return out


def _skew_part(layout: Layout, k: Tensor, factor: float, dtype: torch.dtype) -> Tensor:
    """``factor``·(K − Kᵀ)."""
    out = layout.empty(k, dtype)
    _halves(layout, k, out, out, factor, 1)
    return out


def _halves(layout: Layout, k: Tensor, skew: Tensor, symmetric: Tensor, factor: float, store: int) -> None:
    with torch.cuda.device_of(k):
        kernels.polar.halves_kernel[(len(layout.tiles),)](
            k, skew, symmetric, layout.tiles, layout.table, factor, B=TILE["BM"], STORE=store, num_warps=WARPS
        )


def _rows(layout: Layout, flat: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
    """Vectors (..., d) for stacks of matrices, as views of a buffer with one entry per row."""
    out, place, p = [], 0, 0
    for shape in shapes:
        count, size = shape[:-2].numel(), layout.padded[p]
        whole = flat[place : place + count * size].view(*shape[:-2], size)
        out.append(whole[..., : shape[-1]])
        place, p = place + count * size, p + count
    return out
