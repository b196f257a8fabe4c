"""Principal components of features, which face verification by L-Softmax compares (thesis 2.2.7)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .._core.arrays import takes_arrays
from .._core.checks import check_count
from ._inputs import check_features


@dataclass(frozen=True, eq=False)
class PrincipalComponents:
    """The directions in which features vary most; calling it gives the coordinates of features in them.

    Args:
        mean: Mean μ of the features from which the components were computed, (d,) float64.
        directions: Orthonormal rows u_1, u_2, ..., by descending variance, (k, d) float64.
        variances: The variance λ_i of the features along each, (k,) float64, divided by N − 1.
        share: Share of the total variance that these directions explain, in [0, 1].
        whiten: Whether coordinates are divided by √λ_i.

    Example:
        >>> components = hs.metrics.principal_components(torch.randn(50, 8), 3)
        >>> components(torch.randn(2, 8)).shape
        torch.Size([2, 3])
    """

    mean: Tensor
    directions: Tensor
    variances: Tensor
    share: float
    whiten: bool = False

    @takes_arrays("features")
    @torch.no_grad()
    def __call__(self, features: Tensor) -> Tensor:
        """u_i · (x − μ), divided by √λ_i if whitened: (n, d) becomes (n, k), in float32 or the features' float64.

        Raises:
            ValueError: If the features have another dimension, or are not finite.
        """
        x = check_features("features", features)
        if x.shape[1] != len(self.mean):
            raise ValueError(
                f"features have dimension {x.shape[1]}: these components are of dimension {len(self.mean)}"
            )
        out = (x.double() - self.mean.to(x.device)) @ self.directions.to(x.device).mT
        if self.whiten:
            out = out / self.variances.to(x.device).sqrt()
        return out if x.dtype == torch.float64 else out.float()


@takes_arrays("features")
@torch.no_grad()
def principal_components(features: Tensor, dim: int, *, whiten: bool = False) -> PrincipalComponents:
    """The ``dim`` directions of largest variance of the rows x: the leading eigenvectors of Σ(x−μ)(x−μ)ᵀ/(N−1).

    Compute them on training features and apply them to the features that are compared. The sign of a direction is
    arbitrary; here its entry of largest absolute value is positive. Everything is computed in float64.

    Args:
        features: Training features (n, d) from which mean and components are computed.
        dim: Number of directions, at most min(N − 1, d).
        whiten: Whether coordinates are divided by their standard deviation.

    Returns:
        A function of features: see :class:`PrincipalComponents`.

    Shape:
        ``features``: (N, d).

    Raises:
        ValueError: If there are fewer than two features, ``dim`` is too large, or ``whiten`` is set and a direction has
            no variance.

    Example:
        >>> reduce = hs.metrics.principal_components(torch.randn(100, 16), 4)
        >>> reduce(torch.randn(5, 16)).shape
        torch.Size([5, 4])
    """
    x = check_features("features", features).double()
    check_count("dim", dim)
    most = min(len(x) - 1, x.shape[1])
    if dim > most:
        raise ValueError(f"dim={dim} is more than {len(x)} features of dimension {x.shape[1]} have: at most {most}")
    mean = x.mean(0)
    _, sizes, rows = torch.linalg.svd(x - mean, full_matrices=False)
    variances = sizes.square() / (len(x) - 1)
    largest = rows.gather(1, rows.abs().argmax(1, keepdim=True))
    chosen = (rows * largest.sign())[:dim]
    noise = 1e-12 * float(variances[0])
    if whiten and float(variances[dim - 1]) <= noise:
        flat = int((variances[:dim] <= noise).nonzero()[0])
        raise ValueError(
            f"whiten=True with dim={dim}, but the features vary in {flat} directions only: use a smaller dim"
        )
    whole = float(variances.sum())
    share = float(variances[:dim].sum()) / whole if whole else 1.0
    return PrincipalComponents(mean, chosen, variances[:dim].clone(), share, whiten)
