"""Neurons on the circle and the sphere under regularization, with the way they took (thesis Figures 5.1, D.1, D.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core.checks import check_count, check_positive
from ..metrics import separation_distance
from ._data import float_values
from ._sphere import BEHIND, in_front, new_spheres, shaded
from ._style import GREY, INK, PALETTE, SIZES, Figure, given_axes, new_figure, picture
from ._trajectories import REGULARIZERS, Trajectory, descend, start

_TITLES = {"orthonormal": "orthonormal", "mhe": "MHE", "half_space_mhe": "half-space MHE"}
_INNER = 0.72  # radius at which ways on the circle begin; they end at 1
_END, _VIRTUAL = PALETTE[1], PALETTE[5]


@picture
def neuron_trajectories(
    regularizers: Sequence[str] = REGULARIZERS,
    *,
    neurons: int = 10,
    dim: int = 3,
    steps: int = 300,
    lr: float = 0.5,
    s: float = 2.0,
    seed: int = 0,
    view: tuple[float, float] = (20.0, 35.0),
) -> Figure:
    """Random neurons optimised by the gradient of a regularizer alone: path and end of each (thesis Figure 5.1).

    All panels start from the same neurons. Hollow markers show the start, lines the path and full markers the end. The
    half-space panel also shows the virtual neurons −ŵ. The title gives the smallest angle between two neurons at the
    end (of {ŵ, −ŵ} in half space).

    Args:
        regularizers: any of ``"orthonormal"``, ``"mhe"``, ``"half_space_mhe"``, one panel each.
        neurons: number of neurons that repel each other on the sphere, ≥ 2.
        dim: 3 for the sphere, 2 for the circle.
        steps: number of steps of gradient descent on the sphere.
        lr: length of a step; it is halved if the value does not fall enough.
        s: power of the distance in the energies, ≥ 0; 0 is the logarithmic energy.
        seed: seed of the random neurons that every panel starts from.
        view: elevation and azimuth of the viewer, in degrees.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If a regularizer is unknown, or ``dim`` is neither 2 nor 3.

    Example:
        >>> figure = hs.plots.neuron_trajectories(["mhe"], neurons=4, steps=3)
        >>> type(figure).__name__
        'Figure'
    """
    if isinstance(regularizers, str) or not len(regularizers):
        raise ValueError(f"regularizers={regularizers!r} must be a list of one or more of: {', '.join(REGULARIZERS)}")
    _check_dim(dim)
    begin = start(neurons, dim, seed)
    found = [descend(name, begin, steps=steps, lr=lr, s=s) for name in regularizers]
    titles = [f"{_TITLES[one.regularizer]}\nsmallest angle {_smallest_angle(one):.1f}°" for one in found]
    figure, panels = _new_panels(titles, dim, view, columns=min(3, len(found)))
    for axes, one in zip(panels, found, strict=True):
        ends = one.points[-1]
        if one.regularizer == "half_space_mhe":
            _dots(axes, -ends, _VIRTUAL, "virtual neurons −ŵ", view, marker="D", size=24)
        _paths(axes, one.points, GREY, view)
        _dots(axes, one.points[0], GREY, "start", view, hollow=True)
        _dots(axes, ends, _END, "neurons ŵ", view)
    entries = [("start", GREY, "o", True), ("neurons ŵ", _END, "o", False)]
    if "half_space_mhe" in regularizers:
        entries.append(("virtual neurons −ŵ", _VIRTUAL, "D", False))
    _legend_below(figure, entries)
    return figure


@picture
def weighted_neuron_trajectories(
    betas: Sequence[float] = (1.0, 2.0, 4.0, 10.0),
    *,
    weighted: int = 1,
    neurons: int = 10,
    dim: int = 3,
    steps: int = 300,
    lr: float = 0.5,
    s: float = 2.0,
    seed: int = 0,
    view: tuple[float, float] | None = None,
) -> Figure:
    """Weighted MHE: the first neurons have weight β, the others 1 (thesis D.10; Figures D.1 and D.2).

    Neurons with a large β hardly move. The title gives the length of the first neuron's path in degrees.

    Args:
        betas: weight of the first neurons, one panel each.
        weighted: number of neurons with that weight: 1 as in Figure D.1, 2 as in Figure D.2 (at most 3).
        neurons: number of neurons that repel each other on the sphere, ≥ 2.
        dim: 3 for the sphere, 2 for the circle.
        steps: number of steps of gradient descent on the sphere.
        lr: length of a step; it is halved if the value does not fall enough.
        s: power of the distance in the energy, ≥ 0; 0 is the logarithmic energy.
        seed: seed of the random neurons that every panel starts from.
        view: elevation and azimuth of the viewer, in degrees; None looks at the start of the first neuron.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If ``betas`` is empty, ``weighted`` is not 1, 2 or 3, or ``dim`` is neither 2 nor 3.

    Example:
        >>> figure = hs.plots.weighted_neuron_trajectories((1.0, 4.0), neurons=4, steps=3)
        >>> type(figure).__name__
        'Figure'
    """
    _check_dim(dim)
    betas = float_values("betas", betas, 1).tolist()
    if not 1 <= check_count("weighted", weighted) <= min(3, neurons):
        raise ValueError(f"weighted={weighted} must be 1, 2 or 3, and at most neurons={neurons}")
    begin = start(neurons, dim, seed)
    if view is None:
        view = (20.0, math.degrees(math.atan2(float(begin[0, 1]), float(begin[0, 0]))) - 30.0)
    found = []
    for beta in betas:
        weights = torch.ones(neurons, dtype=torch.float64)
        weights[:weighted] = check_positive("betas", beta)
        found.append(descend("mhe", begin, steps=steps, lr=lr, s=s, weights=weights))
    titles = [f"β = {beta:g}\nway of w₁ {_way(one.points[:, 0]):.0f}°" for beta, one in zip(betas, found, strict=True)]
    figure, panels = _new_panels(titles, dim, view, columns=min(4, len(found)))
    names = [f"w{'₁₂₃'[index]}, weight β" for index in range(weighted)]
    markers = ("s", "^", "v")
    for axes, one in zip(panels, found, strict=True):
        _dots(axes, one.points[-1, weighted:], _END, "neurons of weight 1", view)
        for index in range(weighted):
            path, colour = one.points[:, index], (PALETTE[0], PALETTE[2], PALETTE[3])[index]
            _paths(axes, path[:, None], colour, view, style=(0, (2, 1)))
            _dots(axes, _along(path), colour, "_way", view, marker=markers[index], size=12)
            _dots(axes, path[-1:], colour, names[index], view, marker=markers[index], size=52)
            _plot(axes, torch.stack((0 * path[-1], path[-1])), color=colour, lw=1.4, zorder=4, label="_radius")
    entries = [(names[i], (PALETTE[0], PALETTE[2], PALETTE[3])[i], markers[i], False) for i in range(weighted)]
    _legend_below(figure, [*entries, ("neurons of weight 1", _END, "o", False)])
    return figure


def _check_dim(dim: int) -> None:
    if dim not in (2, 3):
        raise ValueError(f"dim={dim!r} cannot be drawn: choose 2 (circle) or 3 (sphere)")


def _new_panels(titles: list[str], dim: int, view: tuple[float, float], columns: int) -> tuple[Figure, list[Any]]:
    panel = 2.7 if columns <= 3 else 2.2
    if dim == 3:
        figure, spheres = new_spheres(titles, columns=columns, panel=panel, view=view, zoom=1.52)
        if given_axes() is None:
            figure.set_figheight((panel + 0.45) * math.ceil(len(titles) / columns))
            figure.subplots_adjust(bottom=0.07, top=0.87)
        return figure, spheres
    rows = math.ceil(len(titles) / columns)
    figure, panels = new_figure(rows, columns, size=(panel * columns, (panel + 0.5) * rows), layout=None)
    if given_axes() is None:
        figure.subplots_adjust(left=0.01, right=0.99, bottom=0.09, top=0.86, wspace=0.04, hspace=0.3)
    turn = torch.linspace(0, 2 * math.pi, 181, dtype=torch.float64)
    for axes, title in zip(panels, titles, strict=False):
        axes.plot(turn.cos().numpy(), turn.sin().numpy(), color=GREY, lw=0.9, zorder=1, label="_graticule")
        axes.set_aspect("equal")
        axes.set_xlim(-1.2, 1.2)
        axes.set_ylim(-1.2, 1.2)
        axes.set_title(title, fontsize=SIZES["title"], color=INK)
    for axes in panels:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.grid(False)
        for spine in axes.spines.values():
            spine.set_visible(False)
    return figure, panels[: len(titles)]


def _plot(axes: Any, points: Tensor, **style: Any) -> None:
    axes.plot(*points.T.tolist(), **style)


def _paths(axes: Any, points: Tensor, colour: str, view: tuple[float, float], style: Any = "-") -> None:
    """One line a neuron, fainter where it runs behind the sphere; on the circle drawn inwards, where it can be seen."""
    _, neurons, dim = points.shape
    for index in range(neurons):
        path = points[:, index]
        if dim == 2:
            _plot(
                axes,
                (_INNER + (1 - _INNER) * _progress(path)[:, None]) * path,
                color=colour,
                ls=style,
                lw=1.0,
                zorder=2,
                label="_way",
            )
            continue
        front = in_front(path, view)
        for part, opacity in ((front, 0.9), (~front, 1.6 * BEHIND)):
            shown = torch.where(part[:, None], path, math.nan)
            _plot(axes, shown, color=colour, ls=style, lw=1.1, alpha=opacity, zorder=2, label="_way")


def _dots(
    axes: Any,
    points: Tensor,
    colour: str,
    label: str,
    view: tuple[float, float],
    *,
    marker: str = "o",
    size: float = 34,
    hollow: bool = False,
) -> None:
    if points.shape[1] == 2:
        shown = _INNER * points if hollow else points
        face = "none" if hollow else colour
        axes.scatter(
            *shown.T.tolist(), s=size, facecolors=face, edgecolors=colour, marker=marker, zorder=3, label=label
        )
        return
    shades = shaded(colour, points, view)
    axes.scatter(
        *points.T.tolist(), s=size * (0.6 if hollow else 1), facecolors="none" if hollow else shades, edgecolors=shades,
        marker=marker, depthshade=False, zorder=3, label=label,
    )  # fmt: skip


def _legend_below(figure: Figure, entries: list[tuple[str, str, str, bool]]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], ls="", marker=marker, ms=6, mec=colour, mfc="none" if hollow else colour, label=name)
        for name, colour, marker, hollow in entries
    ]
    figure.legend(
        handles=handles,
        loc="lower center",
        ncols=len(handles),
        frameon=False,
        fontsize=SIZES["legend"],
        labelcolor=INK,
    )


def _smallest_angle(one: Trajectory) -> float:
    half = one.regularizer == "half_space_mhe"
    return math.degrees(float(separation_distance(one.points[-1], half_space=half)))


def _way(path: Tensor) -> float:
    """Length of a path on the sphere, in degrees."""
    return float(_ways(path)[-1])


def _ways(path: Tensor) -> Tensor:
    """Degrees along the sphere up to each point: sums of the angles 2·asin(‖difference‖/2)."""
    chords = path.diff(dim=0).norm(dim=1)
    return torch.cat(
        (torch.zeros(1, dtype=path.dtype), (2 * torch.asin((chords / 2).clamp(max=1))).cumsum(0))
    ).rad2deg()


def _progress(path: Tensor) -> Tensor:
    """Share of the way at each point, from 0 to 1."""
    ways = _ways(path)
    return ways / ways[-1] if float(ways[-1]) > 0 else torch.linspace(0, 1, len(path), dtype=path.dtype)


def _along(path: Tensor, spacing: float = 6.0) -> Tensor:
    """Points of a path at about every ``spacing`` degrees of way: iterates that lie on one another are left out."""
    fresh = (_ways(path) / spacing).floor().diff() > 0
    return path[torch.cat((torch.ones(1, dtype=torch.bool), fresh))]
