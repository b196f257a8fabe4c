"""Löwdin's map on a GPU: the polynomial iterations of ``iterations`` in split TF32, one launch a product.

Symmetric and skew results are computed by halves. The host looks at how far the iteration came, lets it go on where
singular values are small, and leaves singular matrices to their singular values. While a CUDA graph is recorded the
values cannot be checked: then four more passes are made, which take singular values down to 1e-9 of the norm, and what
lies below is left shorter than 1.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import algorithms as exact
from .grouped import Layout, layout_of, product, usable
from .iterations import (
    PASSES,
    polar_backward_by_eigenvalues,
    polar_by_svd,
    polynomial_polar,
    polynomial_polar_backward,
)

_CLOSE = 1e-4  # max|XᵀX − I| of an iteration that has converged; a polish follows


def polar(u: Tensor) -> tuple[Tensor, Tensor]:
    """R and H of U = RH; see :func:`polynomial_polar`."""
    return by_kernels(u) if usable(u, "lowdin") else polynomial_polar(u)


def polar_backward(grad: Tensor, r: Tensor, h: Tensor) -> Tensor:
    """R·L with HL + LH = RᵀG − GᵀR; see :func:`polynomial_polar_backward`."""
    return backward_by_kernels(grad, r, h) if usable(grad, "lowdin") else polynomial_polar_backward(grad, r, h)


def by_kernels(u: Tensor) -> tuple[Tensor, Tensor]:
    """X ← X(aI + bXᵀX + c(XᵀX)²) from X = U/s, s = √‖UᵀU‖_F ≥ ‖U‖."""
    layout = layout_of([u.shape], u.device)
    whole_t = _packed(layout, u.mT)
    gram, _ = product(layout, whole_t, whole_t, mirror=1)
    scale = _matrices(layout, gram, u.shape).norm(dim=(-2, -1), keepdim=True).sqrt()
    scale = torch.where(scale > 0, scale, 1.0)
    x, x_t = _packed(layout, u / scale), _packed(layout, u.mT / scale)
    gram = _packed(layout, _matrices(layout, gram, u.shape) / scale / scale)
    for index, passes in enumerate(_rounds(u)):
        for first, (a, b, c) in enumerate(passes):
            if index or first:
                gram, _ = product(layout, x_t, x_t, mirror=1)
            polynomial, _ = product(layout, gram, gram, gram, alpha=c, beta=b, gamma=a, mirror=1)
            x, x_t = product(layout, x, polynomial, store="both")
        away, _ = product(layout, x_t, x_t, alpha=-0.5, gamma=0.5, mirror=1)  # ½(I − XᵀX)
        defect = 2.0 * _matrices(layout, away, u.shape).abs().amax((-2, -1), keepdim=True)
        x, x_t = product(layout, x, away, x, store="both", precise=False)
        if _is_close(u, defect):
            break
    else:
        return polar_by_svd(u)
    h, _ = product(layout, x_t, whole_t)
    r, h = _matrices(layout, x, u.shape), _matrices(layout, h, u.shape)
    return r.clone(), 0.5 * (h + h.mT)


def backward_by_kernels(grad: Tensor, r: Tensor, h: Tensor) -> Tensor:
    """The passes on [[H, K], [0, −H]] (see :func:`polynomial_polar_backward`): X and q symmetric, Y skew."""
    layout = layout_of([grad.shape], grad.device)
    r_t, g_t = _packed(layout, r.mT), _packed(layout, grad.mT)
    k, _ = product(layout, r_t, g_t)
    skew = _matrices(layout, k, grad.shape)
    square, _ = product(layout, _packed(layout, h), _packed(layout, h), mirror=1)
    scale = _matrices(layout, square, h.shape).norm(dim=(-2, -1), keepdim=True).sqrt()  # √‖H²‖_F ≥ ‖H‖
    scale = torch.where(scale > 0, scale, 1.0)
    x, y = _packed(layout, h / scale), _packed(layout, (skew - skew.mT) / scale)
    for passes in _rounds(grad):
        for a, b, c in passes:
            square, _ = product(layout, x, x, mirror=1)
            half, _ = product(layout, x, y, alpha=-1.0)  # XY, for Yᵀ = −Y
            crossed = _symmetric(layout, half, grad.shape)
            half, _ = product(layout, square, crossed)
            mixed = _symmetric(layout, half, grad.shape)
            polynomial, _ = product(layout, square, square, square, alpha=c, beta=b, gamma=a, mirror=1)
            moved, _ = product(layout, x, torch.add(mixed.mul_(c), crossed, alpha=b))
            y, _ = product(layout, y, polynomial, moved, mirror=-1)
            x, _ = product(layout, x, polynomial, mirror=1)
        away = _matrices(layout, x, grad.shape) - torch.eye(grad.shape[-1], device=grad.device)
        if _is_close(grad, away.abs().amax((-2, -1), keepdim=True)):
            break
    else:
        return polar_backward_by_eigenvalues(grad, r, h)
    out, _ = product(layout, _packed(layout, r), y, alpha=-0.5)  # R·Y/2, for Yᵀ = −Y
    return _matrices(layout, out, grad.shape).clone()


def _rounds(u: Tensor) -> tuple[tuple[tuple[float, float, float], ...], ...]:
    """Passes to make before each look at the outcome: singular values down to 1e-5 of the norm, then 1e-7."""
    if exact.is_captured(u):
        return ((*4 * PASSES[:1], *PASSES),)
    return PASSES[2:], PASSES[7:]


def _is_close(u: Tensor, defect: Tensor) -> bool:
    """Whether an iteration has converged; while a CUDA graph is recorded this is unknown."""
    return exact.is_captured(u) or bool((defect < _CLOSE).all())


def _packed(layout: Layout, x: Tensor) -> Tensor:
    flat = layout.empty(x)
    _matrices(layout, flat, x.shape).copy_(x)
    return flat


def _matrices(layout: Layout, flat: Tensor, shape: torch.Size) -> Tensor:
    return layout.views(flat, [shape])[0]


def _symmetric(layout: Layout, flat: Tensor, shape: torch.Size) -> Tensor:
    """M + Mᵀ, padding included."""
    size = layout.padded[0]
    whole = flat.view(-1, size, size)
    return (whole + whole.mT).flatten()
