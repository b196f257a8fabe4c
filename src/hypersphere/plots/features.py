"""Features of samples and the vectors of their classes, in the plane and on the sphere (thesis Figures 2.2, 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..functional import unit
from ._data import class_names, float_values, integer_labels
from ._sphere import BEHIND, in_front, new_spheres, shaded
from ._style import INK, MARKERS, SIZES, Figure, colours, given_axes, label_axes, new_figure, picture

_RASTER = 4000  # from here on points are pixels also in PDF and SVG, which would be huge otherwise


@picture
def features_2d(
    features: Any,
    labels: Any,
    class_vectors: Any = None,
    classes: Sequence[str] | None = None,
    *,
    title: str | None = None,
) -> Figure:
    """Two-dimensional features, a colour and marker for each class, with the directions of the class vectors.

    Args:
        features: (n, 2), any device and dtype.
        labels: class index of each sample, (n,); it chooses the colour and the marker.
        class_vectors: (num_classes, 2), e.g. the head's ``weight``; drawn as rays as long as the 98th percentile of the
            features' norms, with the class's name at the end.
        classes: a name for each class; None shows their indices.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Example:
        >>> figure = hs.plots.features_2d(torch.randn(6, 2), torch.arange(6) % 2)
        >>> type(figure).__name__
        'Figure'
    """
    x, y, vectors, names = _inputs(features, labels, class_vectors, classes, 2)
    figure, (axes,) = new_figure(size=(6.0, 5.2))
    norms = x.norm(dim=1)
    reach = float(norms.quantile(0.98)) or float(norms.max()) or 1.0
    shades = colours(len(names))
    for index, points in _by_class(x, y):
        axes.scatter(
            points[:, 0].numpy(),
            points[:, 1].numpy(),
            s=_size(len(x)),
            color=shades[index],
            marker=MARKERS[index % len(MARKERS)],
            linewidths=0,
            alpha=0.75,
            label=names[index],
            rasterized=len(x) > _RASTER,
            zorder=2,
        )
    if vectors is not None:
        for index, ray in enumerate(unit(vectors) * reach):
            axes.plot([0, float(ray[0])], [0, float(ray[1])], color=INK, lw=0.9, zorder=3, label=f"_vector {index}")
            _name(axes, names[index], (1.09 * ray).tolist(), shades[index])
        axes.plot([0], [0], marker="o", ms=3, color=INK, zorder=3, label="_origin")
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.08)
    label_axes(axes, "feature 1", "feature 2", title)
    _class_legend(figure, axes, sorted(set(y.tolist())), names, shades)
    return figure


@picture
def features_3d(
    features: Any,
    labels: Any,
    class_vectors: Any = None,
    classes: Sequence[str] | None = None,
    *,
    title: str | None = None,
    view: tuple[float, float] = (20.0, 35.0),
) -> Figure:
    """Directions of three-dimensional features on the unit sphere, with the class vectors; what lies behind is fainter.

    A zero feature has no direction and is drawn at the centre.

    Args:
        features: (n, 3), any device and dtype; divided by their norms.
        labels: class index of each sample, (n,); it chooses the colour and the marker.
        class_vectors: (num_classes, 3), drawn from the centre to the sphere, with the class's name.
        classes: a name for each class; None shows their indices.
        title: text above the picture; None has none.
        view: elevation and azimuth of the viewer, in degrees.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Example:
        >>> figure = hs.plots.features_3d(torch.randn(6, 3), torch.arange(6) % 2)
        >>> type(figure).__name__
        'Figure'
    """
    x, y, vectors, names = _inputs(features, labels, class_vectors, classes, 3)
    figure, (axes,) = new_spheres([title or ""], columns=1, panel=5.2, view=view)
    if given_axes() is None:
        figure.set_size_inches(6.0, 5.2)
        figure.subplots_adjust(left=0.0, right=0.86)
    shades = colours(len(names))
    for index, points in _by_class(unit(x), y):
        axes.scatter(
            *points.T.numpy(),
            s=_size(len(x)),
            c=shaded(shades[index], points, view, 0.8),
            marker=MARKERS[index % len(MARKERS)],
            linewidths=0,
            depthshade=False,
            label=names[index],
            zorder=3,
        )
    if vectors is not None:
        directions = unit(vectors)
        dark = shaded(INK, directions, view)
        for index, ray in enumerate(directions):
            axes.plot(*torch.stack((0 * ray, ray), 1).tolist(), color=dark[index], lw=1.1, zorder=4, label="_vector")
            seen = 1.0 if bool(in_front(ray, view)) else 2 * BEHIND
            _name(axes, names[index], (1.13 * ray).tolist(), shades[index], seen)
    _class_legend(figure, axes, sorted(set(y.tolist())), names, shades)
    return figure


def _inputs(
    features: Any, labels: Any, class_vectors: Any, classes: Sequence[str] | None, dim: int
) -> tuple[Tensor, Tensor, Tensor | None, list[str]]:
    x = float_values("features", features, 2)
    if x.shape[1] != dim:
        raise ValueError(
            f"features has {x.shape[1]} dimensions: features_{dim}d draws {dim}, train with feature_dim={dim}"
        )
    y = integer_labels("labels", labels, len(x))
    count = int(y.max()) + 1
    vectors = None
    if class_vectors is not None:
        vectors = float_values("class_vectors", class_vectors, 2)
        if vectors.shape[1] != dim or len(vectors) < count:
            raise ValueError(
                f"class_vectors has shape {tuple(vectors.shape)}: pass one vector of {dim} numbers for each of the "
                f"{count} classes in labels"
            )
        count = len(vectors)
    names = class_names(classes, count)
    return x, y, vectors, names


def _by_class(x: Tensor, y: Tensor) -> list[tuple[int, Tensor]]:
    return [(index, x[y == index]) for index in sorted(set(y.tolist()))]


def _size(count: int) -> float:
    """Area of a marker: smaller the more there are."""
    return min(26.0, max(3.0, 12_000 / count))


def _name(axes: Any, name: str, place: list[float], colour: Any, opacity: float = 1.0) -> None:
    style = "circle,pad=0.18" if len(name) < 3 else "round,pad=0.2"
    frame = {"boxstyle": style, "fc": "white", "ec": colour, "lw": 1.2, "alpha": opacity}
    text = {"fontsize": SIZES["tick"], "color": INK, "alpha": opacity, "ha": "center", "va": "center"}
    axes.text(*place, name, zorder=5, bbox=frame, **text)


def _class_legend(figure: Any, axes: Any, present: list[int], names: list[str], shades: list[Any]) -> None:
    """Beside the picture, so that it hides nothing."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], ls="", marker=MARKERS[i % len(MARKERS)], color=shades[i], ms=5.5, label=names[i])
        for i in present
    ]
    if len(handles) > 30:  # the names would not fit: the rays carry them
        return
    columns = 1 + (len(handles) - 1) // 15
    axes.legend(
        handles=handles, title="class", loc="center left", bbox_to_anchor=(1.0, 0.5), ncols=columns,
        fontsize=SIZES["legend"], title_fontsize=SIZES["legend"], frameon=False, labelcolor=INK, handletextpad=0.3,
    )  # fmt: skip
