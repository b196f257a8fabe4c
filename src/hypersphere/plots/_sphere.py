"""The unit sphere seen from a direction: a light graticule, and what lies behind it drawn fainter."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ._style import GREY, INK, SIZES, Figure, blank_figure, figure_of, given_axes

BEHIND = 0.22
"""Opacity of what the sphere would hide."""


def new_spheres(
    titles: list[str], *, columns: int, panel: float, view: tuple[float, float], zoom: float = 1.5
) -> tuple[Figure, list[Any]]:
    """A figure with one sphere a title, all seen from ``view`` = (elevation, azimuth) in degrees."""
    rows = math.ceil(len(titles) / columns)
    given = given_axes(len(titles), "3d")
    if given is None:
        figure = blank_figure(figsize=(panel * columns, (panel + 0.25) * rows), facecolor="white")
        figure.subplots_adjust(left=0.0, right=1.0, bottom=0.02, top=0.93, wspace=0.02, hspace=0.08)
    else:
        figure = figure_of(given[0])
    panels = []
    for index, title in enumerate(titles):
        axes: Any = given[index] if given else figure.add_subplot(rows, columns, index + 1, projection="3d")
        axes.computed_zorder = False
        axes.set_proj_type("ortho")
        axes.view_init(*view)
        draw_sphere(axes, view, zoom)
        axes.set_title(title, fontsize=SIZES["title"], color=INK, pad=0)
        panels.append(axes)
    return figure, panels


def draw_sphere(axes: Any, view: tuple[float, float], zoom: float = 1.5) -> None:
    """Meridians and parallels every 30°, front ones darker, and the outline; equal axes, no box."""
    turn = torch.linspace(0, 2 * math.pi, 181, dtype=torch.float64)
    circles = [_parallel(math.radians(height), turn) for height in range(-60, 61, 30)]
    circles += [_meridian(math.radians(east), turn) for east in range(0, 180, 30)]
    for circle in circles:
        front = in_front(circle, view)
        for part, opacity in ((front, 0.55), (~front, 0.18)):
            x, y, z = torch.where(part[:, None], circle, math.nan).T.tolist()
            axes.plot(x, y, z, color=GREY, lw=0.5, alpha=opacity, zorder=1, label="_graticule")
    right, up = _screen(view)
    outline = turn.cos()[:, None] * right + turn.sin()[:, None] * up
    axes.plot(*outline.T.tolist(), color=GREY, lw=0.9, zorder=1, label="_graticule")
    axes.set_xlim(-1, 1)
    axes.set_ylim(-1, 1)
    axes.set_zlim(-1, 1)
    axes.set_box_aspect((1, 1, 1), zoom=zoom)
    axes.set_axis_off()


def in_front(points: Tensor, view: tuple[float, float]) -> Tensor:
    """Which points (n, 3) lie on the side of the viewer."""
    return points @ _towards_viewer(view) >= 0


def shaded(colour: Any, points: Tensor, view: tuple[float, float], opacity: float = 1.0) -> list[tuple[float, ...]]:
    """``colour`` for each point, fainter behind the sphere."""
    from matplotlib.colors import to_rgba

    seen, hidden = to_rgba(colour, opacity), to_rgba(colour, BEHIND * opacity)
    return [seen if front else hidden for front in in_front(points, view).tolist()]


def _towards_viewer(view: tuple[float, float]) -> Tensor:
    elevation, azimuth = (math.radians(degrees) for degrees in view)
    flat = math.cos(elevation)
    return torch.tensor([flat * math.cos(azimuth), flat * math.sin(azimuth), math.sin(elevation)], dtype=torch.float64)


def _screen(view: tuple[float, float]) -> tuple[Tensor, Tensor]:
    azimuth, towards = math.radians(view[1]), _towards_viewer(view)
    right = torch.tensor([-math.sin(azimuth), math.cos(azimuth), 0.0], dtype=torch.float64)
    return right, torch.linalg.cross(towards, right)


def _parallel(height: float, turn: Tensor) -> Tensor:
    radius = math.cos(height)
    return torch.stack((radius * turn.cos(), radius * turn.sin(), torch.full_like(turn, math.sin(height))), 1)


def _meridian(east: float, turn: Tensor) -> Tensor:
    return torch.stack((turn.cos() * math.cos(east), turn.cos() * math.sin(east), turn.sin()), 1)
