"""Inner products of features with class vectors, or with the closest of several sub-centers of a class."""

from __future__ import annotations

from torch import Tensor

from .._core.extremes import largest


def products(x: Tensor, w: Tensor) -> Tensor:
    """x_i·w_j (N, B) of class vectors w (B, d); of sub-centers (B, K, d) max_k x_i·w_jk."""
    return x @ w.T if w.dim() == 2 else largest((x @ w.flatten(0, 1).T).unflatten(1, w.shape[:2]), -1)


def own_products(x: Tensor, w: Tensor) -> Tensor:
    """x_i·w_i (N,) of the vectors w (N, d) of each sample's class; of sub-centers (N, K, d) max_k x_i·w_ik."""
    return (x * w).sum(-1) if w.dim() == 2 else largest((x[:, None] * w).sum(-1), -1)
