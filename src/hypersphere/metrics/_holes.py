"""The holes of a configuration of directions: the caps that its convex hull leaves empty (thesis F.9)."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.arrays import takes_arrays
from .._core.errors import check_floating
from .._core.sphere import unit


@takes_arrays("w")
@torch.no_grad()
def hole_radii(w: Tensor) -> Tensor:
    """ρ_i = 2 sin(α_i/2), the Euclidean hole radius of every facet of the convex hull of the ŵ (thesis F.38).

    A facet lies in a plane n·x = b; the cap beyond it, of geodesic radius α = arccos b about n, has neurons on its
    boundary only. So ρ = √(2 − 2b). The largest hole is the covering radius, ρ_max = 2 sin(α/2) (F.39). It is exact,
    while :func:`covering_radius` samples. Qhull computes the hull in float64 on the CPU. The number of facets grows
    steeply with the dimension, so this is for up to about 8 dimensions. Facets with more than d neurons, as on a cube,
    count once, although Qhull cuts them into simplices of one plane. For float32 neurons, planes that differ only by
    rounding count as one. This may join nearly coplanar facets, and changes radii by rounding only.

    Args:
        w: Neurons, one per row; their lengths do not matter, and zeros, which have no direction, are left out.

    Returns:
        One radius for each facet, largest first.

    Shape:
        ``w``: (N, d) with N > d ≥ 2. Output: (facets,).

    Raises:
        ValueError: If there are too few neurons for a hull, or all of them lie in one hyperplane.
        ImportError: If scipy is missing.

    Example:
        >>> octahedron = torch.cat([torch.eye(3), -torch.eye(3)])
        >>> len(hs.metrics.hole_radii(octahedron))
        8
    """
    check_floating("w", w)
    if w.ndim != 2 or w.shape[1] < 2 or len(w) <= w.shape[1]:
        raise ValueError(f"w has shape {tuple(w.shape)}: a hull needs (N, d) with d ≥ 2 and N > d")
    try:
        from scipy.spatial import ConvexHull, QhullError
    except ImportError as error:
        raise ImportError("hole_radii needs scipy: pip install 'hypersphere[metrics]'") from error
    points = unit(w.detach().double().cpu())
    points = points[(points != 0).any(1)]  # a zero vector has no direction
    if len(points) <= w.shape[1]:
        raise ValueError(f"w has {len(points)} neurons that are not 0: a hull of {w.shape[1]} dimensions needs more")
    try:
        hull = ConvexHull(points.numpy(), qhull_options=_options(w))
    except QhullError as error:
        raise ValueError(
            f"w has no convex hull of {w.shape[1]} dimensions: its {len(w)} neurons lie in one hyperplane, or repeat"
        ) from error
    planes = torch.from_numpy(hull.equations.copy()).unique(dim=0)  # the simplices of a facet have its equation
    offsets = -planes[:, -1]  # n·x + offset ≤ 0 inside
    radii = (2 - 2 * offsets).clamp_min(0).sqrt().sort(descending=True).values
    return radii.to(device=w.device, dtype=w.dtype if w.dtype == torch.float64 else torch.float32)


def _options(w: Tensor) -> str:
    """Options of Qhull: triangulated facets, put together where rounding to float32 made several of one.

    Half precision is taken as it is: what its rounding joins are facets of their own where neurons are many.
    """
    usual = "Qt" if w.shape[1] < 5 else "Qt Qx"
    return f"{usual} C-{4 * torch.finfo(w.dtype).eps:.1e}" if w.dtype == torch.float32 else usual
