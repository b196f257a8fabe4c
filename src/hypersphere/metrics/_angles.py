"""Metrics of directions: angular visual hardness, angular Fisher score, separation, covering, uniformity.

Measurements: no gradients, half precision in float32, autocast or not, and no N × N tensor.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._core.arrays import takes_arrays
from .._core.checks import check_count, check_positive
from .._core.errors import check_floating
from .._core.modes import without_autocast
from .._core.sphere import upcast
from ..functional import angle, unit
from ._inputs import check_dimensions, check_features, check_labels, class_directions, rows_within

_ROWS = 2048


@takes_arrays("features", "weight", labels=("labels",))
@torch.no_grad()
def angular_visual_hardness(features: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
    """AVH = θ(W_y, x) / Σ_i θ(W_i, x), one value per sample, harder is larger (thesis sec. 1.1).

    Args:
        features: features (n, d), one sample per row; their lengths do not matter.
        weight: class vectors (C, d), e.g. ``head.weight``; their lengths do not matter.
        labels: class index of each sample, (n,).

    Returns:
        (n,), in [0, 1]; 1/C for a sample with equal angles to all classes.

    Raises:
        ValueError: If the dimensions of ``features`` and ``weight`` differ, one is not finite, or a label names no
            class vector.

    Example:
        >>> hs.metrics.angular_visual_hardness(torch.ones(1, 2), torch.eye(2), [0])
        tensor([0.5000])
    """
    features, weight = check_features("features", features, empty=True), check_features("weight", weight)
    check_dimensions("weight", weight, "features", features)
    own = check_labels("labels", labels, len(features)).to(features.device)
    if own.numel() and not (int(own.min()) >= 0 and int(own.max()) < len(weight)):
        raise ValueError(f"labels reach from {int(own.min())} to {int(own.max())}: weight has {len(weight)} classes")
    vectors, rows, parts = _unit(weight).to(upcast(features).dtype), rows_within(len(weight)), []
    with without_autocast(features.device):
        for x, y in zip(features.split(rows), own.split(rows), strict=True):
            angles = angle(_unit(x) @ vectors.mT)
            total = angles.sum(1)
            parts.append(torch.where(total == 0, 1 / len(weight), angles.gather(1, y[:, None])[:, 0] / total))
    return torch.cat(parts)


@takes_arrays("features", labels=("labels",))
@torch.no_grad()
def angular_fisher_score(features: Tensor, labels: Tensor) -> Tensor:
    """AFS = Σ_i Σ_{x∈X_i} (1 − cos⟨x, m_i⟩) / Σ_i n_i (1 − cos⟨m_i, m⟩), lower is more discriminative (thesis A.1).

    m_i is the mean feature of class i, m the mean of all features.

    Args:
        features: features (n, d), one sample per row; long ones count more in the means.
        labels: class index of each sample, (n,).

    Returns:
        A scalar ≥ 0; infinite if all class means have the same direction.

    Raises:
        ValueError: If ``features`` is empty, not finite or not (n, d), or ``labels`` has another length.

    Example:
        >>> hs.metrics.angular_fisher_score(torch.eye(2).repeat(2, 1), [0, 1, 0, 1]).item()
        0.0
    """
    x = upcast(check_features("features", features))
    names = check_labels("labels", labels, len(x)).to(x.device)
    _, classes, counts = names.unique(return_inverse=True, return_counts=True)
    with without_autocast(x.device):
        means = class_directions(x, classes, len(counts))
        whole = class_directions(x, torch.zeros_like(classes), 1)[0]
        within, between = _away(unit(x), means[classes]).sum(), (counts * _away(means, whole)).sum()
        return torch.where(between == 0, torch.inf, within / between)


@takes_arrays("w")
@torch.no_grad()
def separation_distance(w: Tensor, half_space: bool = False) -> Tensor:
    """ψ = min_{i≠j} arccos(ŵ_i·ŵ_j), radians (thesis F.37).

    The closest pair is found by cosines in float64, which resolve angles above 1e-8. Its angle is computed from the
    difference of the two vectors, which is exact for near-duplicates.

    Args:
        w: vectors (N, d), one per row; only their directions count.
        half_space: take the vectors {ŵ, −ŵ}: lines instead of directions.

    Returns:
        The smallest angle between two vectors, a scalar in [0, π].

    Raises:
        ValueError: If ``w`` is not (N, d) or has fewer than two vectors.

    Example:
        >>> hs.metrics.separation_distance(torch.eye(3))
        tensor(1.5708)
    """
    _check_matrix("w", w)
    if len(w) < 2:
        raise ValueError(f"w has {len(w)} vectors: a separation needs two")
    points = unit(w.detach().to("cpu" if w.device.type == "mps" else w.device, torch.float64))
    best, pair = -math.inf, (0, 1)
    for start in range(0, len(points), _ROWS):
        with without_autocast(w.device):
            cosines = points[start : start + _ROWS] @ points[start:].mT
        cosines.fill_diagonal_(-math.inf)
        if half_space:
            cosines = cosines.abs().fill_diagonal_(-math.inf)
        top, place = cosines.flatten().max(0)
        if float(top) > best or math.isnan(float(top)):
            best = float(top)
            pair = (start + int(place) // cosines.shape[1], start + int(place) % cosines.shape[1])
    first, second = points[pair[0]], points[pair[1]]
    if half_space and float((first * second).sum()) < 0:
        second = -second
    return (2 * torch.atan2((first - second).norm(), (first + second).norm())).to(w.device, upcast(w).dtype)


@takes_arrays("w")
@torch.no_grad()
def covering_radius(w: Tensor, samples: int = 100_000, generator: torch.Generator | None = None) -> Tensor:
    """α = max_u min_i arccos(u·ŵ_i), radians (thesis F.36), over random directions u.

    The value is a lower bound that grows with ``samples``: in d dimensions one of the random directions comes within ε
    of the deepest hole with probability of order samples·ε^(d−1). So state the sample size with the value.

    Args:
        w: vectors (N, d), one per row; only their directions count.
        samples: number of random directions u; more of them give a tighter lower bound and take longer.
        generator: a CPU generator; None seeds one with 0, so that equal calls give equal values.

    Returns:
        The angle of the worst-covered direction to its nearest vector, a scalar in [0, π].

    Raises:
        ValueError: If ``w`` holds no vector but zeros, or is not (N, d).

    Example:
        >>> bool(hs.metrics.covering_radius(torch.eye(3), samples=1000) > 1.5)
        True
    """
    _check_matrix("w", w)
    check_count("samples", samples)
    points = _unit(w)
    points = points[(points != 0).any(1)]  # a zero vector has no direction, and covers nothing
    if not len(points):
        raise ValueError("w has no vectors but zeros: a covering radius needs one")
    generator = torch.Generator().manual_seed(0) if generator is None else generator
    lowest = math.inf
    for start in range(0, samples, _ROWS):
        count = min(_ROWS, samples - start)
        directions = unit(torch.randn(count, points.shape[1], generator=generator, device=generator.device).to(points))
        with without_autocast(w.device):
            nearest = torch.stack([(directions @ part.mT).amax(1) for part in points.split(8 * _ROWS)]).amax(0)
        lowest = min(lowest, float(nearest.min())) if not nearest.isnan().any() else math.nan
    return angle(torch.tensor(lowest, dtype=points.dtype, device=points.device))


@takes_arrays("w")
@torch.no_grad()
def uniformity(w: Tensor, t: float = 2.0) -> Tensor:
    """log mean_{i≠j} exp(−t‖ŵ_i − ŵ_j‖²) for any number of vectors: 0 if all are equal, lower if more even.

    Args:
        w: vectors (N, d), one per row; only their directions count.
        t: sharpness of the kernel, > 0; with a large t only the closest pairs matter.

    Returns:
        The uniformity, a scalar ≤ 0.

    Raises:
        ValueError: If ``w`` is not (N, d) or has fewer than two vectors, or ``t`` is not positive.

    Example:
        >>> hs.metrics.uniformity(torch.eye(3))
        tensor(-4.)
    """
    _check_matrix("w", w)
    check_positive("t", t)
    if len(w) < 2:
        raise ValueError(f"w has {len(w)} vectors: uniformity needs two")
    points, sums = _unit(w), []
    for start in range(0, len(points), _ROWS):
        with without_autocast(w.device):
            cosines = points[start : start + _ROWS] @ points.mT
        cosines.diagonal(offset=start).fill_(-math.inf)
        sums.append((2 * t * (cosines - 1)).flatten().logsumexp(0))
    return torch.stack(sums).logsumexp(0) - math.log(len(points) * (len(points) - 1))


def _away(a: Tensor, b: Tensor) -> Tensor:
    """1 − cos of unit vectors, without cancellation; 1 where one of them is zero."""
    return torch.where((a != 0).any(-1) & (b != 0).any(-1), (a - b).square().sum(-1) / 2, 1.0)


def _unit(x: Tensor) -> Tensor:
    return unit(upcast(x.detach()))


def _check_matrix(argument: str, x: Tensor) -> None:
    check_floating(argument, x)
    if x.ndim != 2 or x.shape[1] == 0:
        raise ValueError(f"{argument} has shape {tuple(x.shape)}: pass vectors as rows, (n, d) with d ≥ 1")
