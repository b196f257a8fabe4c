"""How far apart pairs of the same and of different classes are, as densities of their angle."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from .._core.arrays import as_tensor
from .._core.checks import check_count
from ..functional import angle, unit
from ._data import float_values, integer_labels
from ._style import INK, PALETTE, Figure, label_axes, legend, new_figure, picture

_ROWS = 1024  # rows of the cosine matrix that exist at a time


@picture
def angle_distributions(
    features: Any = None,
    labels: Any = None,
    *,
    scores: Any = None,
    same: Any = None,
    bins: int = 90,
    max_pairs: int | None = 250_000,
    seed: int = 0,
    title: str | None = None,
) -> Figure:
    """Densities of the angle θ of positive pairs (same class) and negative pairs (different classes).

    Pass ``features`` and ``labels``, or the ``scores`` of given pairs and whether each is the ``same``. Each density
    integrates to 1 over degrees; the dotted lines are the means.

    Args:
        features: (n, d), any device and dtype.
        labels: (n,) class indices; at least two classes, one of them with two samples.
        scores: (pairs,) cosines in [−1, 1], e.g. of a verification protocol.
        same: (pairs,) booleans, True for pairs of one class.
        bins: number of bars over [0°, 180°].
        max_pairs: largest number of pairs of each kind. If there are more, so many are drawn uniformly with
            replacement. None always takes all, in blocks of rows, so that no n × n matrix is in memory.
        seed: seed of the draw of pairs, so that a picture can be made again.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If not exactly one of (features, labels) and (scores, same) is given, or pairs of one kind are
            missing.

    Example:
        >>> figure = hs.plots.angle_distributions(torch.randn(20, 4), torch.arange(20) % 2)
        >>> type(figure).__name__
        'Figure'
    """
    check_count("bins", bins, minimum=2)
    if max_pairs is not None:
        check_count("max_pairs", max_pairs)
    if scores is not None and same is not None and features is None and labels is None:
        histograms = _of_scores(scores, same, bins)
    elif features is not None and labels is not None and scores is None and same is None:
        histograms = _of_features(features, labels, bins, max_pairs, seed)
    else:
        raise ValueError("pass features and labels, or scores and same: exactly one of the two ways")
    figure, (axes,) = new_figure()
    edges = torch.linspace(0, 180, bins + 1, dtype=torch.float64).numpy()
    kinds = (
        ("positive pairs (same class)", PALETTE[0], "-"),
        ("negative pairs (different classes)", PALETTE[1], "--"),
    )
    for (name, colour, style), (counts, mean, drawn) in zip(kinds, histograms, strict=True):
        density = counts / counts.sum() * (bins / 180)
        label = f"{name}, mean {mean:.1f}°" + (f", {int(counts.sum()):,} sampled" if drawn else "")
        axes.stairs(density.numpy(), edges, fill=True, color=colour, alpha=0.3, label=f"_{name}")
        axes.stairs(density.numpy(), edges, color=colour, lw=1.6, ls=style, label=label)
        axes.axvline(mean, color=colour, lw=1.1, ls=":", label="_mean")
    label_axes(axes, "angle θ between two samples (degrees)", "density (per degree)", title)
    axes.set_xlim(0, 180)
    axes.set_xticks(range(0, 181, 30))
    axes.axvline(90, color=INK, lw=0.5, zorder=0, label="_right angle")
    top = max(float(axes.dataLim.y1), 1e-12)
    axes.set_ylim(0, 1.35 * top)  # room for the legend
    legend(axes, loc="upper center")
    return figure


Histogram = tuple[Tensor, float, bool]
"""Counts, mean angle in degrees, and whether the pairs were sampled."""


def _of_scores(scores: Any, same: Any, bins: int) -> list[Histogram]:
    cos = float_values("scores", scores, 1)
    if float(cos.abs().max()) > 1 + 1e-3:
        raise ValueError(f"scores reach {float(cos.abs().max()):g}: they must be cosines, in [−1, 1]")
    mask = as_tensor("same", same).detach().cpu()
    if mask.shape != cos.shape or mask.is_floating_point():
        raise ValueError(f"same is {mask.dtype} of shape {tuple(mask.shape)}: pass {len(cos)} booleans")
    mask = mask.bool()
    if not mask.any() or mask.all():
        raise ValueError("same has pairs of one kind only: two distributions need positive and negative pairs")
    return [_every([angle(cos[kind])], bins) for kind in (mask, ~mask)]


def _of_features(features: Any, labels: Any, bins: int, max_pairs: int | None, seed: int) -> list[Histogram]:
    x = unit(float_values("features", features, 2))
    if getattr(features, "dtype", None) != torch.float64:
        x = x.float()  # an angle to 0.02° is plenty for a bin
    y = integer_labels("labels", labels, len(x))
    _, y, sizes = y.unique(return_inverse=True, return_counts=True)
    positives = int((sizes * (sizes - 1) // 2).sum())
    negatives = len(y) * (len(y) - 1) // 2 - positives
    if not positives or not negatives:
        missing = "no class has two samples" if not positives else "all samples are of one class"
        raise ValueError(f"labels: {missing}; two distributions need positive and negative pairs")
    generator = torch.Generator().manual_seed(seed)
    limit = math.inf if max_pairs is None else max_pairs
    return [
        _every(_within_classes(x, y), bins)
        if positives <= limit
        else _sample(x, *_positive_pairs(y, sizes, int(limit), generator), bins),
        _every(_between_classes(x, y), bins)
        if negatives <= limit
        else _sample(x, *_negative_pairs(y, sizes, int(limit), generator), bins),
    ]


def _within_classes(x: Tensor, y: Tensor) -> Iterator[Tensor]:
    """Angles of every pair i < j of one class, a block of rows at a time."""
    for index in range(int(y.max()) + 1):
        own = x[y == index]
        for start in range(0, len(own), _ROWS):
            theta = angle(own[start : start + _ROWS] @ own[start:].T)
            yield theta[torch.ones(theta.shape, dtype=torch.bool).triu(1)]


def _between_classes(x: Tensor, y: Tensor) -> Iterator[Tensor]:
    """Angles of every pair i < j of different classes, a block of rows at a time."""
    for start in range(0, len(x), _ROWS):
        theta = angle(x[start : start + _ROWS] @ x[start:].T)
        different = y[start : start + _ROWS, None] != y[None, start:]
        yield theta[different.triu(1)]


def _positive_pairs(y: Tensor, sizes: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pairs i ≠ j of one class, each pair equally likely: the class by its number of pairs, then two members."""
    chances = (sizes * (sizes - 1)).double()
    cumulative = chances.cumsum(0) / chances.sum()
    which = torch.searchsorted(cumulative, torch.rand(count, generator=generator, device="cpu", dtype=torch.float64))
    size = sizes[which].double()
    first = (torch.rand(count, generator=generator, device="cpu", dtype=torch.float64) * size).long()
    second = (torch.rand(count, generator=generator, device="cpu", dtype=torch.float64) * (size - 1)).long()
    second = second + (second >= first).long()  # skip the first itself
    order, begin = y.argsort(stable=True), sizes.cumsum(0) - sizes
    return order[begin[which] + first], order[begin[which] + second]


def _negative_pairs(y: Tensor, sizes: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Pairs of different classes, each equally likely: the first by its number of partners, then a partner."""
    n, order, begin = len(y), y.argsort(stable=True), sizes.cumsum(0) - sizes
    chances = ((n - sizes) * sizes).double()
    cumulative = chances.cumsum(0) / chances.sum()
    which = torch.searchsorted(cumulative, torch.rand(count, generator=generator, device="cpu", dtype=torch.float64))
    first = (torch.rand(count, generator=generator, device="cpu", dtype=torch.float64) * sizes[which].double()).long()
    others = (n - sizes[which]).double()
    second = (torch.rand(count, generator=generator, device="cpu", dtype=torch.float64) * others).long()
    second = second + sizes[which] * (second >= begin[which]).long()  # skip the first's class
    return order[begin[which] + first], order[second]


def _sample(x: Tensor, first: Tensor, second: Tensor, bins: int) -> Histogram:
    blocks = zip(first.split(8 * _ROWS), second.split(8 * _ROWS), strict=True)
    counts, mean, _ = _every((angle((x[i] * x[j]).sum(1)) for i, j in blocks), bins)
    return counts, mean, True


def _every(parts: Iterable[Tensor], bins: int) -> Histogram:
    counts, total = torch.zeros(bins, dtype=torch.float64), 0.0
    for part in parts:
        theta = part.double().rad2deg().clamp(0, 180)
        counts += torch.histc(theta, bins, 0, 180)
        total += float(theta.sum())
    return counts, total / float(counts.sum()), False
