"""Restricted condition numbers of one linear layer, plain and on the sphere (paper sec. 2.3, Lemmas 1 and 2).

G(U, V) = ½‖F − UVᵀ‖² with U (n, k), V (m, k) and F = UVᵀ, so that (U, V) is an optimum and (cU, V/c) another one with
the same product; G_S is the same of rows scaled to length 1, ½‖F − D_U·UVᵀ·D_V‖².
"""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.errors import check_positive
from ..functional import decoupled_linear, unit

_ZERO = 1e-10  # eigenvalues below this share of the largest are those of the symmetries


def optimum(n: int, m: int, k: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random U and V with rows of length 1, as the paper assumes; float64."""
    generator = torch.Generator().manual_seed(seed)
    u, v = (torch.randn(rows, k, generator=generator, dtype=torch.float64) for rows in (n, m))
    return unit(u), unit(v)


def condition(u: Tensor, v: Tensor, c: float, kind: str) -> float:
    """κ = λ_max/λ_min (smallest nonzero) of the Hessian at (cU, V/c).

    ``"plain"`` of G; ``"sphere"`` of G_S after rows are put back to length 1, as training with SphereConv does after
    each step; ``"sphere_free"`` of G_S where the rows are left at lengths c and 1/c.
    """
    check_positive("scales", c)
    target, a, b = u @ v.T, c * u, v / c
    if kind == "sphere":
        a, b = unit(a), unit(b)
    split = a.numel()

    def objective(point: Tensor) -> Tensor:
        left, right = point[:split].view_as(a), point[split:].view_as(b)
        product = left @ right.T if kind == "plain" else decoupled_linear(right, left).T
        return (target - product).square().sum() / 2

    with torch.enable_grad():
        hessian = torch.autograd.functional.hessian(objective, torch.cat((a.flatten(), b.flatten())))
    values = torch.linalg.eigvalsh((hessian + hessian.T) / 2)
    nonzero = values[values > _ZERO * values[-1]]
    return float(values[-1] / nonzero[0])
