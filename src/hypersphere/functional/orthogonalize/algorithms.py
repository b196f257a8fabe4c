"""The orthogonalizations of thesis appendix F.1 by one factorization each, with closed-form gradients.

In every map R moves along R·Ω with Ω skew; the backward passes are the adjoints of U ↦ Ω. They see
float32 or float64 matrices (..., d, d) and record nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor


class Unresolved(ValueError):
    """A matrix is not finite, or its angles are larger than its dtype can resolve."""


def gram_schmidt(u: Tensor) -> tuple[Tensor, Tensor]:
    """Q and T of U = QT with diag T > 0: Algorithm 1 (and 2) in exact arithmetic.

    Below its diagonal T is whatever the factorization left there: no one reads it.
    """
    t, tau = torch.geqrf(u)
    return _flip(torch.linalg.householder_product(t, tau), t, _signs(t))


def householder(u: Tensor) -> tuple[Tensor, Tensor]:
    """Q and T of Algorithm 3: d−1 reflections, each leaving a positive diagonal entry.

    LAPACK reflects to the other sign and also counts no reflection (τ = 0) where nothing is below
    the diagonal. Flipping a column's sign is one more reflection, so the last sign is the product
    of the others: Q then has the determinant of Algorithm 3's product, (−1)^(reflections).
    """
    t, tau = torch.geqrf(u)
    signs = _signs(t).masked_fill_(tau == 0, 1.0)
    signs[..., -1] = signs[..., :-1].prod(-1)
    return _flip(torch.linalg.householder_product(t, tau), t, signs)


def qr_backward(grad: Tensor, q: Tensor, t: Tensor) -> Tensor:
    """Ω = tril(X,−1) − tril(X,−1)ᵀ with X = QᵀdU T⁻¹, so dL/dU = Q tril(N − Nᵀ,−1) T⁻ᵀ with N = QᵀG."""
    n = q.mT @ grad
    x = (n - n.mT).tril_(-1)
    pivots = t.diagonal(dim1=-2, dim2=-1).abs()
    rounding = torch.finfo(t.dtype).eps * t.shape[-1]
    # columns of U that the earlier ones span: no derivative, taken as 0 (asking a GPU costs more than doing it)
    if t.device.type != "cpu" or not _all_above(pivots, rounding):
        dead = pivots <= pivots.amax(-1, keepdim=True) * rounding
        x = x.masked_fill(dead.unsqueeze(-2), 0.0)
        t = t.triu().masked_fill(dead.unsqueeze(-2) | dead.unsqueeze(-1), 0.0) + torch.diag_embed(dead.to(t.dtype))
    return torch.linalg.solve_triangular(t.mT, q @ x, upper=False, left=False)


def lowdin(u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """R = WVᵀ of U = WΣVᵀ (F.14), and the three factors (V transposed)."""
    w, sigma, vt = checked_svd(u)
    return w @ vt, w, vt, sigma


def lowdin_backward(grad: Tensor, r: Tensor, w: Tensor, vt: Tensor, sigma: Tensor) -> Tensor:
    """W·[(K − Kᵀ)/(σᵢ+σⱼ)]·Vᵀ with K = WᵀGV: the Sylvester equation HL + LH = RᵀG − GᵀR in H's eigenbasis.

    Sums of singular values, not differences: coinciding ones are harmless. The sum vanishes only
    where U has rank ≤ d−2; those directions get 0.
    """
    k = w.mT @ grad @ vt.mT
    sums = sigma.unsqueeze(-1) + sigma.unsqueeze(-2)
    floor = sigma[..., :1] * (torch.finfo(sigma.dtype).eps * sigma.shape[-1])
    if (sigma[..., -1:] <= floor).any():
        sums.masked_fill_(sums <= floor.unsqueeze(-1), torch.inf)
    return w @ (k - k.mT).div_(sums) @ vt


def cayley(u: Tensor) -> tuple[Tensor]:
    """R = (I+A)(I−A)⁻¹ = 2(I−A)⁻¹ − I, A = tril(U,−1) − tril(U,−1)ᵀ: one solve, always well conditioned."""
    lower = u.tril(-1)
    m = lower.mT - lower
    m.diagonal(dim1=-2, dim2=-1).add_(1.0)
    if is_captured(m):
        return (polish(polish(polish(_solve_unasked(m)))),)
    size = _largest_column(m)
    if not size * torch.finfo(m.dtype).eps < 1e-3:
        return (_cayley_of_large(u, size),)
    if _splits(m):
        r = _inverse_positive_real(m).mul_(2.0)
        r.diagonal(dim1=-2, dim2=-1).sub_(1.0)
    else:
        r = torch.linalg.solve(m, m.mT, left=False)
    return (polish(polish(r)) if size > _LARGE else r,)  # each squares the error


def _cayley_of_large(u: Tensor, size: float) -> Tensor:
    """R = V e^{2i·arctan λ} Vᴴ with −iA = VλVᴴ, for an A beside which the 1 in I − A is lost.

    The λ of a skew A come in pairs ±λ, with one 0 in odd dimensions. The nearest orthogonal matrix removes rounding.
    """
    _check_angles(u, size)
    shrunk = 1e-10 if size > 1e290 else 1.0
    frequencies, v = torch.linalg.eigh(-1j * _skew(u.double() * shrunk))
    angles = 2.0 * torch.atan(0.5 * (frequencies - frequencies.flip(-1)) / shrunk)
    r = (v * torch.polar(torch.ones_like(angles), angles).unsqueeze(-2)) @ v.mH
    return lowdin(r.real)[0].to(u.dtype)


def cayley_backward(grad: Tensor, r: Tensor) -> Tensor:
    """dL/dA = ½(R+I)ᵀ G (R+I)ᵀ, since (I−A)⁻¹ = (R+I)/2: products only, nothing to solve again."""
    p = r.mT.clone()
    p.diagonal(dim1=-2, dim2=-1).add_(1.0)
    a = p @ grad @ p
    return (a - a.mT).mul_(0.5).tril_(-1)


def exponential(u: Tensor) -> tuple[Tensor, Tensor]:
    """R = exp A with A as for Cayley, and A. Squaring loses orthogonality (3e-4 in float32 at d = 1152): polished."""
    a = _skew(u)
    return _restore(torch.linalg.matrix_exp(a), _largest_column(a)), a


def exponential_backward(grad: Tensor, r: Tensor, a: Tensor) -> Tensor:
    """The adjoint derivative of exp at A in direction G: the corner of exp [[Aᵀ, G], [0, Aᵀ]].

    That corner is linear in G; G is scaled so that it does not add squarings to the exponential.
    """
    d = a.shape[-1]
    scale = torch.linalg.matrix_norm(grad, keepdim=True)
    scale = torch.where(scale == 0, 1.0, scale)
    block = a.new_zeros(*a.shape[:-2], 2 * d, 2 * d)
    block[..., :d, :d] = block[..., d:, d:] = a.mT
    block[..., :d, d:] = grad / scale
    corner = torch.linalg.matrix_exp(block)[..., :d, d:] * scale
    return (corner - corner.mT).tril_(-1)


def exponential_backward_spectral(grad: Tensor, r: Tensor, a: Tensor) -> Tensor:
    """The same in the eigenbasis of A (Daleckii, Krein), with −iA = VλVᴴ: no exponential of twice the size.

    There an entry of the derivative is a divided difference of e^{iλ}, e^{i(λ_j+λ_k)/2}·sinc((λ_j−λ_k)/2).
    """
    angles, v = torch.linalg.eigh(-1j * a)
    half = 0.5 * angles
    turn = torch.polar(torch.ones_like(half), half).unsqueeze(-2)
    inner = (v * turn).mH @ grad.to(v.dtype) @ (v * turn.conj())
    inner.mul_(torch.sinc((half.unsqueeze(-1) - half.unsqueeze(-2)) / torch.pi))
    out = (v @ inner @ v.mH).real
    return (out - out.mT).tril_(-1)


def polish(r: Tensor) -> Tensor:
    """One Newton-Schulz step, R(3I − RᵀR)/2: an error ε in RᵀR = I becomes ¾ε².

    At orthogonal R its derivative is the identity on tangents, so gradients need not know of it.
    """
    gram = r.mT @ r
    gram.mul_(-0.5).diagonal(dim1=-2, dim2=-1).add_(1.5)
    return r @ gram


def is_captured(x: Tensor) -> bool:
    """Whether a CUDA graph is recorded: then the host may be asked nothing, neither by us nor by a solver's checks."""
    return x.is_cuda and torch.cuda.is_current_stream_capturing()


def _solve_unasked(m: Tensor) -> Tensor:
    """MᵀM⁻¹; of several matrices by QR, for their LU factorization asks the host."""
    if m.shape[:-2].numel() == 1:
        whole = m.reshape(m.shape[-2:])
        solved: Tensor = torch.linalg.solve_ex(whole, whole.mT, left=False, check_errors=False)[0]
        return solved.reshape(m.shape)
    q, t = torch.linalg.qr(m)
    return torch.linalg.solve_triangular(t, m.mT, upper=True, left=False) @ q.mT


def checked_svd(u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The singular value decomposition, whose failure means that ``u`` is not finite."""
    try:
        w, sigma, vt = torch.linalg.svd(u)
    except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]
        raise ValueError("u has NaN or infinite entries: look where they come from") from error
    return w, sigma, vt


_LARGE = 64.0  # rounding leaves an error of about eps·‖A‖ in RᵀR = I: beyond this norm it is worth a polish


def _restore(r: Tensor, size: float) -> Tensor:
    """R orthogonal again, after rounding errors that grow with the size of A; by its polar factor if they are large."""
    lost = size * torch.finfo(r.dtype).eps
    if lost < 1e-3:
        return polish(polish(r))  # each squares the error
    _check_angles(r, size, lost < 1)
    return lowdin(r)[0]


def _check_angles(x: Tensor, size: float, resolved: bool = True) -> None:
    if not (resolved and bool(x.isfinite().all())):
        raise Unresolved(
            f"u has NaN or infinite entries, or is too large: the angles of its skew part reach {size:.2g}, which "
            f"{x.dtype} cannot resolve; scale u down"
        )


def _largest_column(a: Tensor) -> float:
    return float(a.abs().sum(-2).max())


def _skew(u: Tensor) -> Tensor:
    lower = u.tril(-1)
    return lower - lower.mT


def _signs(t: Tensor) -> Tensor:
    diagonal = t.diagonal(dim1=-2, dim2=-1)
    return torch.ones_like(diagonal).copysign_(diagonal)


def _all_above(pivots: Tensor, share: float) -> bool:
    """Whether all pivots exceed that share of the largest: one look at all blocks, so False may be a false alarm."""
    low, high = pivots.aminmax()
    return low.item() > high.item() * share


def _flip(q: Tensor, t: Tensor, signs: Tensor) -> tuple[Tensor, Tensor]:
    return q.mul_(signs.unsqueeze(-2)), t.mul_(signs.unsqueeze(-1))


_SPLIT = 256  # above, products on a CPU core are so much faster than triangular solves that halving pays


def _splits(m: Tensor) -> bool:
    return m.shape[-1] > _SPLIT and m.device.type == "cpu"


def _inverse_positive_real(m: Tensor) -> Tensor:
    """M⁻¹ for M with symmetric part ≥ I, halves first: no pivoting is needed, and products are fast on a CPU."""
    if not _splits(m):
        return torch.linalg.inv(m)
    h = m.shape[-1] // 2
    m12, m21 = m[..., :h, h:], m[..., h:, :h]
    inverse11 = _inverse_positive_real(m[..., :h, :h])
    left = m21 @ inverse11
    inverse22 = _inverse_positive_real(m[..., h:, h:] - left @ m12)
    right = inverse11 @ m12 @ inverse22
    out = torch.empty_like(m)
    out[..., :h, :h] = inverse11 + right @ left
    out[..., :h, h:] = -right
    out[..., h:, :h] = -(inverse22 @ left)
    out[..., h:, h:] = inverse22
    return out
