"""What a setting does to the result: one point a run, with the spread over its seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from .._core.checks import is_number
from ._style import LINES, MARKERS, Figure, colours, label_axes, legend, new_figure, shorten


def sweep(runs: Sequence[tuple[Mapping[str, Any], Sequence[float]]], *, label: str = "accuracy, %") -> Figure:
    """Results over the setting with most values; a line for each combination of the other settings.

    Args:
        runs: (settings that were varied, by name; the result of each seed) of each run. Runs without results are left
            out.
        label: Of the vertical axis.

    Returns:
        The figure. A bar reaches from the lowest to the highest seed, a point is their mean.

    Raises:
        ValueError: If no run has a result, or the runs vary different settings.
    """
    done = [(dict(settings), list(scores)) for settings, scores in runs if len(scores)]
    if not done:
        raise ValueError("no run has a result to draw")
    names = list(done[0][0])
    if any(list(settings) != names for settings, _ in done):
        raise ValueError("the runs vary different settings: draw those of one sweep")
    counts = {name: len({str(settings[name]) for settings, _ in done}) for name in names}
    across = max(names, key=lambda name: counts[name]) if names else ""
    lines: dict[str, list[tuple[Any, list[float]]]] = {}
    for settings, scores in done:
        rest = ", ".join(f"{n.rpartition('.')[2]} {v}" for n, v in settings.items() if n != across and counts[n] > 1)
        lines.setdefault(rest, []).append((settings.get(across), scores))
    ticks = list(dict.fromkeys(str(settings.get(across)) for settings, _ in done))
    numeric = all(is_number(settings.get(across)) for settings, _ in done)
    figure, (axes,) = new_figure()
    for index, ((name, points), colour) in enumerate(zip(lines.items(), colours(len(lines)), strict=True)):
        if numeric:
            points.sort(key=lambda point: float(point[0]))
        places = [float(value) if numeric else ticks.index(str(value)) for value, _ in points]
        means = [statistics.fmean(scores) for _, scores in points]
        below = [mean - min(scores) for mean, (_, scores) in zip(means, points, strict=True)]
        above = [max(scores) - mean for mean, (_, scores) in zip(means, points, strict=True)]
        style: dict[str, Any] = {
            "capsize": 3,
            "marker": MARKERS[index % len(MARKERS)],
            "linestyle": LINES[index % len(LINES)] if numeric else "none",
        }
        axes.errorbar(places, means, [below, above], color=colour, label=shorten(name, 40), **style)
    if not numeric:
        axes.set_xticks(range(len(ticks)), [shorten(tick) for tick in ticks])
    label_axes(axes, across, label)
    if len(lines) > 1:
        legend(axes)
    return figure
