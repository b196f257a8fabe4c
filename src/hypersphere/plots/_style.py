"""One look for every picture: size, type, colours, markers, and how panels are made.

Colours: up to eight classes or runs take the palette of Okabe and Ito, which people with any common colour
vision deficiency tell apart; more take even steps of viridis, whose lightness alone orders them. Markers and line
styles change too, so that nothing depends on colour alone. Sizes are set on the artists: no global setting of
matplotlib is read for them or changed, and the font family stays the user's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import torch

from .._core.registries import PLOTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "GREY",
    "INK",
    "LINES",
    "MARKERS",
    "PALETTE",
    "SIZES",
    "colours",
    "label_axes",
    "legend",
    "new_figure",
    "picture",
    "shorten",
]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#000000", "#F0E442")
"""Okabe-Ito, the strongest contrasts to white first."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
INK, GREY, LIGHT = "#222222", "#8a8a8a", "#dddddd"
SIZES = {"title": 10.0, "label": 9.5, "tick": 8.5, "legend": 8.5}

P = ParamSpec("P")
R = TypeVar("R")


def picture(draw: Callable[P, R]) -> Callable[P, R]:
    """Declare a public plot: it asks for matplotlib before it computes anything, and records no gradients."""

    @functools.wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            import matplotlib.figure  # noqa: F401
        except ImportError as error:
            raise ImportError(
                f"hypersphere.plots.{draw.__name__} draws with matplotlib: pip install hypersphere[plots]"
            ) from error
        with torch.no_grad():
            return draw(*args, **kwargs)

    PLOTS.add(draw.__name__, wrapper)
    return wrapper


def new_figure(
    rows: int = 1,
    columns: int = 1,
    *,
    size: tuple[float, float] = (6.0, 3.9),
    projection: str | None = None,
    share_x: bool = False,
    share_y: bool = False,
    layout: Literal["constrained"] | None = "constrained",
) -> tuple[Figure, list[Axes]]:
    """A figure of its own (pyplot does not know it) and its styled axes, row by row; layout None: placed by hand."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, facecolor="white", layout=layout)
    keywords = {"projection": projection} if projection else {}
    grid = figure.subplots(rows, columns, squeeze=False, sharex=share_x, sharey=share_y, subplot_kw=keywords)
    panels = [axes for row in grid for axes in row]
    if projection is None:
        for axes in panels:
            _dress(axes)
    return figure, panels


def colours(count: int) -> list[Any]:
    """One colour each for ``count`` classes or runs."""
    if count <= len(PALETTE):
        return list(PALETTE[:count])
    import matplotlib

    spread = matplotlib.colormaps["viridis"]
    return [spread(0.94 * i / (count - 1)) for i in range(count)]


def label_axes(axes: Axes, x: str, y: str, title: str | None = None) -> None:
    axes.set_xlabel(x, fontsize=SIZES["label"], color=INK)
    axes.set_ylabel(y, fontsize=SIZES["label"], color=INK)
    if title is not None:
        axes.set_title(title, fontsize=SIZES["title"], color=INK)


def legend(axes: Axes, handles: Sequence[Any] | None = None, **options: Any) -> None:
    """A legend that does not hide what lies under it."""
    keywords: dict[str, Any] = {"fontsize": SIZES["legend"], "framealpha": 0.85, "edgecolor": LIGHT, "labelcolor": INK}
    if handles is not None:
        keywords["handles"] = handles
    axes.legend(**(keywords | options))


def shorten(name: str, length: int = 28) -> str:
    """The end of a long layer name, which tells more than its beginning."""
    return name if len(name) <= length else "…" + name[1 - length :]


def _dress(axes: Axes) -> None:
    axes.set_facecolor("white")
    axes.tick_params(labelsize=SIZES["tick"], colors=INK, labelcolor=INK, width=0.8, length=3)
    axes.grid(True, color=LIGHT, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(GREY)
        spine.set_linewidth(0.8)
