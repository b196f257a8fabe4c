"""Which class is taken for which: in counts, and in cosines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core.arrays import as_tensor
from .._core.checks import check_choice
from ..metrics import cosine_confusion
from ._data import class_names, float_values, integer_labels
from ._style import GREY, INK, SIZES, Figure, label_axes, new_figure, picture

_WRITTEN = 16  # up to this many classes each cell carries its number


@picture
def confusion_matrix(
    labels: Any,
    predictions: Any = None,
    classes: Sequence[str] | None = None,
    *,
    normalize: str = "true",
    title: str | None = None,
) -> Figure:
    """Rows are true classes, columns predicted ones.

    Args:
        labels: (n,) true class indices; or, without predictions, a table of counts (num_classes, num_classes) or a
            result with such a table as ``.confusion`` (:func:`hypersphere.metrics.classification`).
        predictions: (n,) predicted class indices, or (n, num_classes) logits or scores, of which the largest counts.
        classes: a name for each class; None shows their indices.
        normalize: ``"true"`` for percentages of each true class, ``"none"`` for counts.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If ``labels`` and ``predictions`` differ in length, are empty, or ``normalize`` is unknown.

    Example:
        >>> figure = hs.plots.confusion_matrix([0, 1, 1], [0, 1, 0], ["cat", "dog"])
        >>> type(figure).__name__
        'Figure'
    """
    check_choice("normalize", normalize, ("true", "none"))
    matrix = _table(labels) if predictions is None else _count(labels, predictions, len(classes or ()))
    classes = getattr(labels, "classes", None) if classes is None else classes
    count = len(matrix)
    if normalize == "true":
        matrix = 100 * matrix / matrix.sum(1, keepdim=True).clamp_min(1)
    top = 100.0 if normalize == "true" else float(matrix.max())
    unit_name = "share of the true class (%)" if normalize == "true" else "samples"
    numbers = "{:.0f}" if normalize == "none" else "{:.1f}"
    return _draw(matrix, class_names(classes, count), "Blues", (0.0, top), unit_name, numbers, title, "predicted class")


@picture
def cosine_confusion_matrix(
    features: Any,
    labels: Any,
    class_vectors: Any = None,
    classes: Sequence[str] | None = None,
    *,
    title: str | None = None,
) -> Figure:
    """C_ij = mean of cos θ(x, w_j) over the samples x of class i: how close each class lies to each class vector.

    Rows of classes without a sample are blank. The numbers are :func:`hypersphere.metrics.cosine_confusion`'s.

    Args:
        features: (n, d), any device and dtype.
        labels: class index of each sample, (n,); it chooses the colour and the marker.
        class_vectors: (num_classes, d), e.g. the head's ``weight``; None: the mean feature of each class.
        classes: a name for each class; None shows their indices.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If ``class_vectors`` has another dimension than the features or too few rows.

    Example:
        >>> figure = hs.plots.cosine_confusion_matrix(torch.randn(6, 4), torch.arange(6) % 2)
        >>> type(figure).__name__
        'Figure'
    """
    x = float_values("features", features, 2)
    y = integer_labels("labels", labels, len(x))
    count, against, vectors = int(y.max()) + 1, "mean feature of class", None
    if class_vectors is not None:
        vectors, against = float_values("class_vectors", class_vectors, 2), "class vector"
        if vectors.shape[1] != x.shape[1] or len(vectors) < count:
            raise ValueError(
                f"class_vectors has shape {tuple(vectors.shape)}: pass {count} or more of dimension {x.shape[1]}"
            )
        count = len(vectors)
    names = class_names(classes, count)
    return _draw(cosine_confusion(x, y, vectors), names, "PuOr_r", (-1.0, 1.0), "mean cos θ", "{:.2f}", title, against)


def _table(counts: Any) -> Tensor:
    table = float_values("labels", getattr(counts, "confusion", counts))
    if table.ndim != 2 or table.shape[0] != table.shape[1] or float(table.min()) < 0:
        raise ValueError(
            f"labels has shape {tuple(table.shape)}: without predictions pass counts (num_classes, num_classes)"
        )
    if not bool(table.any()):
        raise ValueError("labels counts no sample: there is nothing to draw")
    return table


def _count(labels: Any, predictions: Any, least: int) -> Tensor:
    y = integer_labels("labels", labels)
    predicted, count = _predicted(predictions, len(y))
    count = max(count, int(y.max()) + 1, least)
    flat = torch.bincount(y * count + predicted, minlength=count * count)
    return flat.view(count, count).double()


def _predicted(predictions: Any, count: int) -> tuple[Tensor, int]:
    tensor = as_tensor("predictions", predictions)
    if tensor.ndim == 2:
        scores = float_values("predictions", tensor, 2)
        if len(scores) != count:
            raise ValueError(f"predictions has {len(scores)} rows, labels {count}: pass one row for each sample")
        return scores.argmax(1), scores.shape[1]
    found = integer_labels("predictions", tensor, count)
    return found, int(found.max()) + 1


def _draw(
    matrix: Tensor,
    names: list[str],
    colours: str,
    limits: tuple[float, float],
    unit_name: str,
    numbers: str,
    title: str | None,
    columns: str,
) -> Figure:
    figure, (axes,) = new_figure(size=(6.0, 5.1))
    axes.grid(False)
    image = axes.imshow(matrix.numpy(), cmap=colours, vmin=limits[0], vmax=limits[1], interpolation="nearest")
    bar = figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02)
    bar.set_label(unit_name, fontsize=SIZES["label"], color=INK)
    bar.ax.tick_params(labelsize=SIZES["tick"], colors=INK)
    bar.outline.set_edgecolor(GREY)
    every = max(1, len(names) // 20)
    ticks = range(0, len(names), every)
    turned = max(map(len, names)) > 3
    shown = [names[tick] for tick in ticks]
    axes.set_xticks(ticks, shown, rotation=45 if turned else 0, ha="right" if turned else "center")
    axes.set_yticks(ticks, shown)
    if len(names) <= _WRITTEN:
        _write(axes, matrix, limits, numbers)
    label_axes(axes, columns, "true class", title)
    return figure


def _write(axes: Any, matrix: Tensor, limits: tuple[float, float], numbers: str) -> None:
    """Each cell's number, in white on dark; nothing where it would say 0."""
    low, high = limits
    size = SIZES["tick"] - 1.0 - max(0, len(matrix) - 10) * 0.35
    for row, values in enumerate(matrix.tolist()):
        for column, value in enumerate(values):
            if math.isnan(value) or (value == 0 and low == 0):
                continue
            dark = abs(value) > 0.6 * high if low < 0 else value > 0.55 * high
            text = numbers.format(value)
            text = text.lstrip("-") if float(text) == 0 else text.replace("-", "−")
            axes.text(
                column, row, text, ha="center", va="center", fontsize=size, color="white" if dark else INK
            )  # fmt: skip
