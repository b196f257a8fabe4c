"""A nonlinear function of the neurons in the place of the matrix R (generalised OPT, thesis F.6)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .._core.checks import check_count
from .._core.registries import MAPS
from ._maps import Draw, Map


@dataclass(frozen=True)
class Nonlinear(Map):
    """w = v + B·tanh(Aᵀv) for every neuron v of a layer; A and B are shared by its neurons.

    For small Aᵀv this is the matrix I + BAᵀ of :class:`LowRank`. There is no matrix R, so :func:`matrices` raises an
    error. ``init="identity"`` starts B at 0, so that the weights do not change at the start; otherwise B starts with
    small entries. After :func:`merge` the weights are plain, as for every map. The thesis does not specify the
    function; this one is our choice.

    Args:
        rank: number of columns of A and B, ≥ 1.

    Raises:
        ValueError: If ``rank`` is below 1.

    Example:
        >>> model = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 2))
        >>> _ = hs.orthogonal.attach(model, hs.orthogonal.Nonlinear(rank=4))
        >>> [tuple(parameter.shape) for parameter in hs.orthogonal.rotation_parameters(model)]
        [(1, 2, 16, 4)]
    """

    rank: int = 8
    linear = False

    def __post_init__(self) -> None:
        check_count("rank", self.rank)

    def start(self, count: int, dim: int, init: str, draw: Draw) -> Tensor:
        factors = draw(count, 2, dim, self.rank) / math.sqrt(dim)
        factors[:, 1] *= 0.0 if init == "identity" else 0.1
        return factors

    def __call__(self, raw: Tensor) -> Tensor:
        raise ValueError("a nonlinear map has no matrix R: read the weights themselves, or merge them")

    def move(self, raw: Tensor, v: Tensor) -> Tensor:
        a, b = raw.unbind(-3)
        return v + torch.tanh(v @ a) @ b.mT


MAPS.add("nonlinear", Nonlinear)
