"""Low-dimensional views of a layer's neurons, and what their energies are (thesis 6.3, E.6)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils import parametrize

from .._core.modes import whole
from .._core.neurons import Neurons
from .._core.sphere import safe_reciprocal
from ..functional import angle, unit
from ._low_rank import LowRankBilateral


def project(neurons: Tensor, bases: Tensor) -> Tensor:
    """P_c w for every basis P_c (C, k, d) and neuron of (G, N, d): (C, G, N, k), in one product."""
    count, rows, _ = bases.shape
    images = neurons @ bases.flatten(0, 1).to(neurons).mT
    return images.unflatten(-1, (count, rows)).movedim(-2, 0)


def preservation(neurons: Tensor, bases: Tensor, preserve: str) -> Tensor:
    """L_P (thesis 6.6) of every projection, a sum over pairs: how far angles (or cosines) are from the true ones."""
    itself = torch.eye(neurons.shape[-2], dtype=torch.bool, device=neurons.device)

    def similarity(x: Tensor) -> Tensor:
        x = unit(x)
        cosines = (x @ x.mT).masked_fill(itself, 0)
        return cosines if preserve == "cosine" else angle(cosines)

    difference = similarity(neurons) - similarity(project(neurons, bases))
    return (difference * difference).sum((-3, -2, -1))


def preservation_slope(units: Tensor, bases: Tensor) -> tuple[Tensor, Tensor]:
    """∂L_P/∂P_c by cosines, of neurons of length 1, and L_P: autograd's of :func:`preservation`, in fewer operations.

    With y_i = P w_i, c_ij the cosines of the y and e_ij how far they are from the true ones, the slope along y_i is
    4 Σ_j e_ij (ŷ_j − c_ij ŷ_i) / ‖y_i‖, where j = i adds nothing.
    """
    images = project(units, bases)
    inverse = safe_reciprocal(images.norm(dim=-1, keepdim=True))
    directions = images * inverse
    cosines = directions @ directions.mT
    gap = cosines - units @ units.mT
    along = gap @ directions - (gap * cosines).sum(-1, keepdim=True) * directions
    itself = gap.diagonal(dim1=-2, dim2=-1)  # not 0 where an image has no direction
    value = gap.square().sum((-3, -2, -1)) - itself.square().sum((-2, -1))
    return 4 * ((along * inverse).mT @ units).sum(1), value


def tangent_rate(slope: Tensor, value: Tensor) -> Tensor:
    """L/‖∇L‖² of every projection: the step at which the tangent of L ≥ 0 reaches 0 (Polyak)."""
    return value / slope.square().sum((-2, -1)).clamp_min(torch.finfo(slope.dtype).tiny ** 0.5)


def channel_views(matrix: Tensor, channels: int, group: int, order: Tensor | None) -> list[Tensor]:
    """The neurons (G, N, d) cut into ``group`` input channels each (thesis 6.9), in ``order``: (views, G, N, part).

    A last, smaller part has a separate entry; without directions, in one dimension, it has none.
    """
    cut = matrix.unflatten(-1, (channels, -1))
    if order is not None:
        cut = cut[..., order.to(cut.device), :]
    whole = channels // group * group
    parts = []
    if whole:
        parts.append(cut[..., :whole, :].unflatten(-2, (-1, group)).flatten(-2).movedim(-2, 0))
    if whole < channels and (not whole or cut[0, 0, whole:].numel() > 1):
        parts.append(cut[..., whole:, :].flatten(-2)[None])
    return parts


def channel_count(neurons: Neurons) -> int:
    """Input channels that one neuron sees: its dimension without the kernel's extent."""
    return neurons.matrix().shape[-1] // neurons.weight.shape[2:].numel()


def bilateral_views(matrix: Tensor, bases: Tensor, mixing: Tensor) -> tuple[Tensor, Tensor]:
    """Y_1 = P_1 W, (C, G, N, r), and Y_2 = W P_2, (C, G, r', d), with rows as vectors (thesis E.20)."""
    return project(matrix, bases), mixing.to(matrix)[:, None] @ matrix


def low_rank_factors(neurons: Neurons) -> tuple[Tensor, Tensor] | None:
    """What a layer with low-rank bilateral neurons learns: Y_1 and Y_2 themselves."""
    if not parametrize.is_parametrized(neurons.module, neurons.tensor_name):
        return None
    entry = neurons.module.get_submodule(f"parametrizations.{neurons.tensor_name}")
    if isinstance(entry, parametrize.ParametrizationList) and isinstance(entry[-1], LowRankBilateral):
        return whole(entry.get_parameter("original0")), whole(entry.get_parameter("original1"))
    return None
