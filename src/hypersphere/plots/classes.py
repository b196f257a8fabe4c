"""What a classifier learns about its classes besides directions: lengths and biases (thesis Figures A.2, A.3)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ._data import float_values
from ._style import GREY, PALETTE, Figure, label_axes, new_figure, picture


@picture
def class_norms(class_vectors: Any, counts: Any, *, title: str | None = None) -> Figure:
    """The length ‖w_i‖ of each class vector against the number of its samples, with the rank correlation of the two.

    Lengths that grow with the counts act as a prior for frequent classes, learned from the training data (thesis A.2).

    Args:
        class_vectors: (num_classes, d), e.g. the ``weight`` of a head.
        counts: number of training samples of each class, (num_classes,), e.g. ``split.counts``.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If ``counts`` and ``class_vectors`` differ in length, or a count is negative.

    Example:
        >>> figure = hs.plots.class_norms(torch.randn(5, 8), [10, 20, 30, 40, 50])
        >>> type(figure).__name__
        'Figure'
    """
    lengths = float_values("class_vectors", class_vectors, 2).norm(dim=1)
    numbers = float_values("counts", counts, 1)
    if len(numbers) != len(lengths):
        raise ValueError(f"counts has {len(numbers)} numbers for {len(lengths)} class vectors: pass one for each")
    if float(numbers.min()) < 0:
        raise ValueError(f"counts holds {float(numbers.min()):g}: a class has 0 samples or more")
    figure, (axes,) = new_figure()
    axes.scatter(numbers.numpy(), lengths.numpy(), s=22, color=PALETTE[0], linewidths=0, alpha=0.85, label="classes")
    text = f"rank correlation {_rank_correlation(numbers, lengths):+.2f}"
    axes.text(0.98, 0.04, text, transform=axes.transAxes, ha="right", fontsize=9)
    axes.set_ylim(0, 1.08 * float(lengths.max()) or 1.0)
    label_axes(axes, "samples of the class", "length ‖w‖ of its vector", title)
    return figure


@picture
def class_biases(biases: Any, *, bins: int = 24, title: str | None = None) -> Figure:
    """The biases of the classes in order of size, and their histogram.

    Biases near 0 can be left out; decisions then depend on lengths and angles alone (thesis A.3).

    Args:
        biases: (num_classes,), e.g. the ``bias`` of a softmax head.
        bins: number of bars of the histogram.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Example:
        >>> figure = hs.plots.class_biases(torch.randn(20))
        >>> type(figure).__name__
        'Figure'
    """
    values = float_values("biases", biases, 1).sort().values
    figure, (left, right) = new_figure(1, 2, size=(7.6, 3.2), title=title)
    left.plot(range(len(values)), values.numpy(), ls="", marker="o", ms=3, color=PALETTE[0], label="classes")
    left.axhline(0.0, color=GREY, lw=0.8)
    right.hist(values.numpy(), bins=bins, color=PALETTE[0], alpha=0.85)
    right.axvline(0.0, color=GREY, lw=0.8)
    right.locator_params(axis="y", integer=True)
    label_axes(left, "classes, by their bias", "bias")
    label_axes(right, "bias", "classes")
    return figure


def _rank_correlation(first: Tensor, second: Tensor) -> float:
    """Spearman's: the correlation of the ranks; equal values share their mean rank; 0 if one side is constant."""
    ranks = []
    for values in (first, second):
        _, place, equal = values.unique(return_inverse=True, return_counts=True)  # in order
        below = equal.cumsum(0) - equal
        ranks.append((below + (equal - 1) / 2).double()[place])
    centred = [rank - rank.mean() for rank in ranks]
    lengths = [float(rank.norm()) for rank in centred]
    return float(torch.dot(*centred)) / (lengths[0] * lengths[1]) if min(lengths) > 0 else 0.0
