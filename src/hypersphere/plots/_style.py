"""One look for every picture: size, type, colours, markers, and how panels are made.

Colours: up to eight classes or runs take the palette of Okabe and Ito, which people with any common colour
vision deficiency tell apart; more take the same hues darker and lighter, as classes have no order that steps of one
scale would suggest. Markers and line styles change too, so that nothing depends on colour alone. Sizes are set on the
artists: no global setting of matplotlib is read for them or changed, and the font family stays the user's.
"""

from __future__ import annotations

import functools
import inspect
import io
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

import torch

from .._core.arrays import label_numbers
from .._core.registries import PLOTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
else:  # names for annotations: matplotlib is imported by the first picture
    Axes = Figure = Any

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#000000", "#F0E442")
"""Okabe-Ito, the strongest contrasts to white first."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))
INK, GREY, LIGHT = "#222222", "#8a8a8a", "#dddddd"
SIZES = {"title": 10.0, "label": 9.5, "tick": 8.5, "legend": 8.5}

P = ParamSpec("P")
R = TypeVar("R")
_CANVAS: ContextVar[Axes | None] = ContextVar("canvas", default=None)
_AX = """    ax: Matplotlib axes to draw on instead of a new figure, as many as the picture has panels; the figure that
        holds them is returned."""


def picture(draw: Callable[P, R]) -> Callable[..., R]:
    """Declare a public plot: it asks for matplotlib before it computes anything, and records no gradients.

    Every plot takes ``ax=``, Matplotlib axes to draw on; the figure that holds them is returned. Labels may be
    names, which are numbered in the order of ``classes``, or sorted.
    """
    signature = inspect.signature(draw)
    own = [name for name in ("labels", "predictions") if name in signature.parameters]

    @functools.wraps(draw)
    def wrapper(*args: Any, ax: Axes | None = None, **kwargs: Any) -> R:
        try:
            import matplotlib.figure  # noqa: F401
        except ImportError as error:
            raise ImportError(
                f"hypersphere.plots.{draw.__name__} draws with matplotlib: pip install hypersphere[plots]"
            ) from error
        given = signature.bind(*args, **kwargs)
        values, named = given.arguments, "classes" in signature.parameters
        found, names = label_numbers(*(values.get(name) for name in own), classes=values.get("classes"))
        if names:
            values.update(zip(own, found, strict=True))
            if named:
                values["classes"] = names
        before = _CANVAS.set(ax)
        try:
            with torch.inference_mode(False), torch.no_grad():
                return draw(*given.args, **given.kwargs)
        finally:
            _CANVAS.reset(before)

    parameters = list(signature.parameters.values())
    place = next((i for i, p in enumerate(parameters) if p.kind is p.VAR_KEYWORD), len(parameters))
    parameters.insert(place, inspect.Parameter("ax", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="Any"))
    wrapper.__doc__ = inspect.cleandoc(draw.__doc__ or "").replace("\n\nReturns:", f"\n{_AX}\n\nReturns:", 1)
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    PLOTS.add(draw.__name__, wrapper)
    return wrapper


def given_axes(count: int | None = None, projection: str | None = None) -> list[Axes] | None:
    """The axes that the caller of a plot gave, refused where the plot needs others; None: make a figure."""
    given: Any = _CANVAS.get()
    if given is None:
        return None
    several = isinstance(given, list | tuple) or hasattr(given, "flat")  # an array, as of plt.subplots(1, 2)
    found = list(getattr(given, "flat", given)) if several else [given]
    if not found or not all(hasattr(axes, "get_figure") for axes in found):
        raise TypeError(f"ax={given!r} must be matplotlib axes, e.g. those of plt.subplots()")
    if count is not None and len(found) != count:
        have = "is one panel" if len(found) == 1 else f"has {len(found)} panels"
        want = f"{count}: pass {count} axes, e.g. plt.subplots(1, {count})[1]" if count > 1 else "one: pass its axes"
        raise ValueError(f"ax= {have}, and this picture has {want}, or leave ax out")
    if projection == "3d" and any(getattr(axes, "name", "") != "3d" for axes in found):
        raise ValueError("ax must have three dimensions: make it with projection='3d'")
    if count is not None and projection is None and any(getattr(axes, "name", "") in ("3d", "polar") for axes in found):
        raise ValueError("ax must be plain axes in the plane: make it without projection=")
    return found


def figure_of(axes: Axes) -> Figure:
    """The figure that axes lie on, also inside subfigures."""
    figure: Any = axes.get_figure(root=True)
    return figure


def blank_figure(**options: Any) -> Figure:
    """A figure that pyplot does not know, and that a notebook shows as a picture."""
    return _figure_class()(**options)


@functools.cache
def _figure_class() -> type[Figure]:
    """Figure with a picture of itself: Jupyter shows figures by itself only after pyplot has been imported."""
    from matplotlib.figure import Figure

    def png(figure: Figure) -> bytes:
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi=figure.dpi, bbox_inches="tight")
        return content.getvalue()

    def reduce(figure: Any) -> Any:
        return blank_figure, (), figure.__getstate__()

    return type("Figure", (Figure,), {"__module__": __name__, "_repr_png_": png, "__reduce__": reduce})


def new_figure(
    rows: int = 1,
    columns: int = 1,
    *,
    size: tuple[float, float] = (6.0, 3.9),
    projection: str | None = None,
    share_x: bool = False,
    share_y: bool = False,
    layout: Literal["constrained"] | None = "constrained",
    title: str | None = None,
) -> tuple[Figure, list[Axes]]:
    """A new figure (unknown to pyplot) and its styled axes, row by row; layout None: placed by hand."""
    given = given_axes(rows * columns, projection)
    if given is not None:
        figure, panels = figure_of(given[0]), given
    else:
        figure = blank_figure(figsize=size, facecolor="white", layout=layout)
        keywords = {"projection": projection} if projection else {}
        grid = figure.subplots(rows, columns, squeeze=False, sharex=share_x, sharey=share_y, subplot_kw=keywords)
        panels = [axes for row in grid for axes in row]
    for axes in panels if projection is None else ():
        _dress(axes)
    if title is not None:
        figure.suptitle(title, fontsize=SIZES["title"])
    return figure, panels


def colours(count: int) -> list[Any]:
    """One colour each for ``count`` classes or runs: those of the palette, then the same darker and lighter.

    Neighbours in number differ in hue, as classes have no order; markers and dashes tell the repeats apart.
    """
    from matplotlib.colors import to_rgb

    found: list[Any] = list(PALETTE[:count])
    hues = [to_rgb(colour) for colour in PALETTE if colour != "#000000"]
    for number in range(count - len(PALETTE)):
        turn, hue = divmod(number, len(hues))
        share = 0.9 * (1 - 0.5 ** (turn // 2 + 1))  # 0.45, 0.45, 0.675, 0.675, ...: towards black and white in turn
        found.append(tuple(round(one + share * (turn % 2 - one), 4) for one in hues[hue]))
    return found


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


def entry(name: str) -> str:
    """The name of a line in a legend, from which matplotlib leaves out those that begin with an underscore."""
    return f" {name}" if name.startswith("_") else name


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
