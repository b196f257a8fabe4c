"""Orthogonalizations by products, Cholesky factors and inverses: what a GPU does fast.

Computed in float64, where one pass is accurate for condition numbers up to 1e7; anything worse
goes to the factorizations of ``_orthogonal_algorithms``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import _orthogonal_algorithms as exact

__all__ = ["cholesky_qr", "newton_polar", "newton_polar_backward"]

_STEPS = 12  # Newton's iteration, scaled: 9 reach rounding at condition 1e7


def cholesky_qr(u: Tensor) -> tuple[Tensor, Tensor]:
    """Gram-Schmidt by CholeskyQR, twice: T₁ᵀT₁ = UᵀU, Q₁ = UT₁⁻¹, then the same on Q₁."""
    q, first, failed = _cholesky_qr_once(u.double())
    q, second, failed_again = _cholesky_qr_once(q)
    if bool((failed | failed_again).any()) or not bool((_defect(q) < 1e-7).all()):
        return exact.gram_schmidt(u)
    return q.to(u.dtype), (second @ first).to(u.dtype)


def newton_polar(u: Tensor) -> tuple[Tensor, Tensor]:
    """R by X ← ½(γX + X⁻ᵀ/γ), and H = sym(RᵀU) of the polar decomposition U = RH."""
    x = u.double()
    for _ in range(_STEPS):
        inverse, _info = torch.linalg.inv_ex(x)
        scale = (_size(inverse) / _size(x)).sqrt()
        x = 0.5 * (scale * x + inverse.mT / scale)
    x = exact.polish(x)
    if not bool((_defect(x) < 1e-7).all()):  # also where x is not finite: U singular
        w, sigma, vt = torch.linalg.svd(u.double())
        x, h = w @ vt, vt.mT @ (sigma.unsqueeze(-1) * vt)
    else:
        h = x.mT @ u.double()
    return x.to(u.dtype), (0.5 * (h + h.mT)).to(u.dtype)


def newton_polar_backward(grad: Tensor, r: Tensor, h: Tensor) -> Tensor:
    """R·L with HL + LH = K = RᵀG − GᵀR, by the sign iteration of [[H, K], [0, −H]]: its corner ends at 2L."""
    h, q = h.double(), r.double()
    k = q.mT @ grad.double()
    k = k - k.mT
    start_h, start_k = h, k
    for _ in range(_STEPS):
        inverse, _info = torch.linalg.inv_ex(h)
        scale = (_size(inverse) / _size(h)).sqrt()
        h = 0.5 * (scale * h + inverse / scale)
        k = 0.5 * (scale * k + (inverse @ k @ inverse) / scale)
    if not bool(
        (_defect(h) < 1e-6).all() & k.isfinite().all()
    ):  # H singular: its eigenbasis, with 0 where undetermined
        sigma, v = torch.linalg.eigh(start_h)
        sigma = sigma.clamp_min(0.0)
        sums = sigma.unsqueeze(-1) + sigma.unsqueeze(-2)
        floor = torch.finfo(r.dtype).eps * sigma.shape[-1] * sigma.amax(-1)
        sums.masked_fill_(sums <= floor[..., None, None], torch.inf)
        k = v @ (2.0 * (v.mT @ start_k @ v) / sums) @ v.mT
    return (0.5 * (q @ k)).to(grad.dtype)


def _cholesky_qr_once(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    lower, info = torch.linalg.cholesky_ex(x.mT @ x)
    upper = lower.mT
    return torch.linalg.solve_triangular(upper, x, upper=True, left=False), upper, info != 0


def _defect(x: Tensor) -> Tensor:
    """max|XᵀX − I| of each matrix."""
    gram = x.mT @ x
    gram.diagonal(dim1=-2, dim2=-1).sub_(1.0)
    return gram.abs().amax((-2, -1))


def _size(x: Tensor) -> Tensor:
    """√(‖X‖₁‖X‖_∞), which bounds the spectral norm from above and makes scaling nearly optimal."""
    absolute = x.abs()
    product = absolute.sum(-2).amax(-1) * absolute.sum(-1).amax(-1)
    return product.sqrt()[..., None, None]
