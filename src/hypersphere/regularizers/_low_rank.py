"""Low-rank bilateral neurons (thesis E.23): a layer whose weight is Y_2 (P_1 Y_2)^(−1) Y_1."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from .._core.checks import check_count
from .._core.modes import without_autocast
from .._core.neurons import holds_columns
from .._core.sphere import upcast
from ._draws import HostDraws, gaussian


def low_rank(module: nn.Module, rank: int = 30, name: str = "weight", seed: int = 0) -> nn.Module:
    """Parametrize a weight by :class:`LowRankBilateral`, from its present value.

    ``CoMHE(model, projection="bilateral")`` then regularizes the two factors of such a layer.
    ``torch.nn.utils.parametrize.remove_parametrizations(module, "weight")`` replaces them by the weight again.

    Args:
        module: a layer with a weight of at least two dimensions; it is changed in place.
        rank: r of the factors; 30 is the dimension of the projections in the thesis.
        name: name of the parameter that is factorized, ``"weight"`` by default.
        seed: seed of the fixed projection P_1.

    Returns:
        ``module`` itself, with the parametrized weight.

    Raises:
        ValueError: If ``module`` keeps its neurons in columns or has no weight of that name, the weight is parametrized
            already, or ``rank`` is too large.

    Example:
        >>> layer = hs.regularizers.low_rank(nn.Linear(64, 40), rank=8)
        >>> [tuple(p.shape) for p in layer.parametrizations.weight.parameters()]
        [(40, 8), (8, 64)]
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor) or weight.ndim < 2:
        raise ValueError(
            f"{type(module).__name__}.{name} is not a weight of neurons: pass a linear or convolution layer"
        )
    if parametrize.is_parametrized(module, name):
        raise ValueError(f"{type(module).__name__}.{name} is parametrized: remove_parametrizations before low_rank")
    if isinstance(module, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d) or holds_columns(module):
        raise ValueError(
            f"{type(module).__name__} keeps its neurons in columns: low_rank takes linear and convolution layers"
        )
    parametrization = LowRankBilateral(weight.shape, rank, seed=seed).to(weight.device)
    parametrize.register_parametrization(module, name, parametrization)
    return module


class LowRankBilateral(nn.Module):
    """W̃ = Y_2 (P_1 Y_2)^(−1) Y_1 (thesis E.23), with rows as neurons: y1·(y2 P_1ᵀ)^(−1)·y2.

    The layer learns y1 (N, r) and y2 (r, d) instead of (N, d) numbers; P_1 (r, d) is random and stays fixed. A given
    weight is replaced by its best approximation of rank r. For this the rows of y2 are the first right singular vectors
    of W, which is one of the choices y2 = P_2 W of E.20; a random P_2 would approximate W far worse.

    Args:
        shape: Shape of the weight; its first dimension counts the neurons.
        rank: r, at least 1 and at most min(N, d).
        seed: Seed of the fixed random projection P_1.

    Shape:
        - Input: y1 (N, r) and y2 (r, d).
        - Output: the weight, in ``shape``.

    Raises:
        ValueError: If ``rank`` is larger than the layer.

    Example:
        >>> layer = hs.regularizers.low_rank(nn.Linear(20, 10), rank=4)
        >>> int(torch.linalg.matrix_rank(layer.weight))
        4
    """

    projection: Tensor

    def __init__(self, shape: torch.Size, rank: int, *, seed: int = 0) -> None:
        super().__init__()
        count, dim = shape[0], shape[1:].numel()
        check_count("rank", rank)
        if rank > min(count, dim):
            raise ValueError(f"rank={rank} is larger than the layer: {count} neurons of dimension {dim}")
        generator = torch.Generator().manual_seed(seed)
        self.shape = torch.Size(shape)
        self.register_buffer("projection", gaussian(rank, dim, HostDraws(generator)))

    def forward(self, y1: Tensor, y2: Tensor) -> Tensor:
        """Compute the weight from its factors.

        Args:
            y1: coefficients Y_1 of the rows, (N, r).
            y2: directions Y_2 that all rows combine, (r, d).

        Returns:
            The weight, of rank at most r.
        """
        with without_autocast(y1.device):
            codes, directions = upcast(y1), upcast(y2)
            core = directions @ self.projection.to(directions).mT
            weight = codes @ torch.linalg.solve(core, directions)
        return weight.reshape(self.shape).to(y1.dtype)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the factors of the best approximation of a weight.

        Args:
            weight: the weight to approximate, (N, d).

        Returns:
            y1 (N, r) and y2 (r, d).
        """
        matrix = upcast(weight.reshape(self.shape[0], -1))
        left, singular, right = torch.linalg.svd(matrix, full_matrices=False)
        rank = len(self.projection)
        y2 = right[:rank]
        y1 = (left[:, :rank] * singular[:rank]) @ (y2 @ self.projection.to(matrix).mT)
        return y1.to(weight.dtype), y2.contiguous().to(weight.dtype)

    def extra_repr(self) -> str:
        return f"shape={tuple(self.shape)}, rank={len(self.projection)}"
