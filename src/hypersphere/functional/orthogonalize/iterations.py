"""Orthogonalizations by products and Cholesky factors: what a GPU does fast.

Computed in float64, which data-centre GPUs multiply at nearly the speed of float32 and in which one
pass is accurate for condition numbers up to 1e7; anything worse goes to the factorizations of
``algorithms``. While a CUDA graph is recorded the values cannot be checked: then the polynomials are taken as they end,
and a Gram-Schmidt that did not come out orthogonal (condition numbers beyond 1e7) is NaN, which stops a training
loudly.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import algorithms as exact

_SMALL, _OFF = 256, 5e-7  # the quick way on a CPU: largest size, and how far from 1 a column's length may be
# x ↦ ax + bx³ + cx⁵ on singular values. Each polynomial is the one nearest to 1 on an interval, found by exchange of
# its four extrema. The first takes [0.05, 1.95] to [0.19, 1.81] and multiplies smaller values by 3.86, so that nine
# passes bring 1e-6 there; steeper ones would press ordinary values down to where rounding errors are. Each of the
# others is made for the interval that the one before leaves; the last converge to 1 cubically.
PASSES = (
    *9 * ((3.8583591588395527, -2.880825305417295, 0.5546316341256831),),
    (3.0495983995113174, -2.284988803847991, 0.48706082742471135),
    (2.112055937412006, -1.49383647266016, 0.4001025026369251),
    (1.8783836569504297, -1.2537545015168288, 0.3753756481422249),
    (15 / 8, -10 / 8, 3 / 8),
)
_DEEPER = 4 * PASSES[:1]  # float64 has the digits for smaller singular values


def cholesky_qr(u: Tensor) -> tuple[Tensor, Tensor]:
    """Gram-Schmidt by CholeskyQR, twice: T₁ᵀT₁ = UᵀU, Q₁ = UT₁⁻¹, then the same on Q₁."""
    if exact.is_captured(u):
        return cholesky_qr_unasked(u)
    q, first = _cholesky_qr_once(u.double())
    q, second = _cholesky_qr_once(q)
    if not bool((_defect(q) < 1e-7).all()):  # a failed Cholesky factorization leaves NaN or a wrong Q
        return exact.gram_schmidt(u)
    return q.to(u.dtype), (second @ first).to(u.dtype)


def cholesky_qr_unasked(u: Tensor) -> tuple[Tensor, Tensor]:
    """The same without a question to the host: one Cholesky factor in float64, then corrections that are products.

    Where QᵀQ = I + E, Q(I − triu(E) + ½diag(E)) errs by E², as the inverse Cholesky factor of I + E does. One pass
    leaves E ≈ cond(U)²·1e-16; two corrections follow. Q is NaN where they do not end at an orthogonal matrix.
    """
    wide = u.double()
    q, _ = _cholesky_qr_once(wide)
    for _ in range(2):
        away = _shifted(q.mT @ q, -1.0)
        away.diagonal(dim1=-2, dim2=-1).mul_(0.5)
        q = q - q @ away.triu_()
    whole = (_defect(q) < 1e-7)[..., None, None]
    return torch.where(whole, q, torch.nan).to(u.dtype), (q.mT @ wide).triu_().to(u.dtype)


def small_cholesky_qr(u: Tensor) -> tuple[Tensor, Tensor]:
    """Gram-Schmidt on a CPU: one such pass for small float32 matrices, where it takes less time than reflections.

    Its error, about cond(U)²·1e-16, shows in the lengths of Q's columns; too much of it, or NaN, and reflections do it.
    """
    if u.dtype == torch.float32 and u.shape[-1] <= _SMALL:
        q, t = _cholesky_qr_once(u.double())
        q = q.float()
        low, high = torch.linalg.vector_norm(q, dim=-2).aminmax()
        if low.item() > 1 - _OFF and high.item() < 1 + _OFF:
            return q, t.float()
    return exact.gram_schmidt(u)


def polynomial_polar(u: Tensor) -> tuple[Tensor, Tensor]:
    """R by X ← X(aI + bXᵀX + c(XᵀX)²) from X = U/‖U‖, and H = sym(RᵀU) of the polar decomposition U = RH."""
    x = u.double()
    x = x / _bound(x)
    for a, b, c in (*_DEEPER, *PASSES):
        gram = x.mT @ x
        x = x @ _shifted(_quadratic(gram, b, c), a)
    if not exact.is_captured(u) and not bool((_defect(x) < 1e-7).all()):  # U singular, or nearly
        return polar_by_svd(u)
    h = x.mT @ u.double()
    return x.to(u.dtype), (0.5 * (h + h.mT)).to(u.dtype)


def polar_by_svd(u: Tensor) -> tuple[Tensor, Tensor]:
    """R and H of U = RH from the singular values, in float64; for matrices that are singular or nearly so."""
    w, sigma, vt = exact.checked_svd(u.double())
    h = vt.mT @ (sigma.unsqueeze(-1) * vt)
    return (w @ vt).to(u.dtype), (0.5 * (h + h.mT)).to(u.dtype)


def polynomial_polar_backward(grad: Tensor, r: Tensor, h: Tensor) -> Tensor:
    """R·L with HL + LH = K = RᵀG − GᵀR: the same polynomials of M = [[H, K], [0, −H]] end at [[I, 2L], [0, −I]].

    M² = [[A, B], [0, A]] with A = H², B = HK − KH, so a pass is H ← Hq, K ← Hp + Kq with
    q = aI + bA + cA² and p = bB + c(AB + BA). H is symmetric and K skew: each sum is X + Xᵀ.
    """
    q, whole = r.double(), h.double()
    k = q.mT @ grad.double()
    k = k - k.mT
    bound = _bound(whole)
    x, y = whole / bound, k / bound
    for a, b, c in (*_DEEPER, *PASSES):
        square = x @ x
        crossed = x @ y
        crossed = crossed + crossed.mT
        mixed = square @ crossed
        polynomial = _shifted(_quadratic(square, b, c), a)
        x, y = x @ polynomial, x @ (b * crossed + c * (mixed + mixed.mT)) + y @ polynomial
    if not exact.is_captured(h) and not bool((_defect(x) < 1e-7).all()):
        return polar_backward_by_eigenvalues(grad, r, h)
    return (0.5 * (q @ y)).to(grad.dtype)


def polar_backward_by_eigenvalues(grad: Tensor, r: Tensor, h: Tensor) -> Tensor:
    """The same in the eigenbasis of H, in float64, with 0 where a singular H leaves L undetermined."""
    k = r.double().mT @ grad.double()
    sigma, v = torch.linalg.eigh(h.double())
    sigma = sigma.clamp_min(0.0)
    sums = sigma.unsqueeze(-1) + sigma.unsqueeze(-2)
    floor = torch.finfo(r.dtype).eps * sigma.shape[-1] * sigma.amax(-1)
    sums.masked_fill_(sums <= floor[..., None, None], torch.inf)
    l = v @ ((v.mT @ (k - k.mT) @ v) / sums) @ v.mT
    return (r.double() @ l).to(grad.dtype)


def _cholesky_qr_once(x: Tensor) -> tuple[Tensor, Tensor]:
    lower, _info = torch.linalg.cholesky_ex(x.mT @ x)
    upper = lower.mT
    return torch.linalg.solve_triangular(upper, x, upper=True, left=False), upper


def _quadratic(square: Tensor, b: float, c: float) -> Tensor:
    return b * square + c * (square @ square)


def _shifted(x: Tensor, a: float) -> Tensor:
    x.diagonal(dim1=-2, dim2=-1).add_(a)
    return x


def _defect(x: Tensor) -> Tensor:
    """max|XᵀX − I| of each matrix; NaN if it is not finite."""
    return _shifted(x.mT @ x, -1.0).abs().amax((-2, -1))


def _bound(x: Tensor) -> Tensor:
    """√(‖X‖₁‖X‖_∞), which is at least the largest singular value (1 for a zero matrix)."""
    absolute = x.abs()
    product = absolute.sum(-2).amax(-1) * absolute.sum(-1).amax(-1)
    return torch.where(product == 0, 1.0, product.sqrt())[..., None, None]
