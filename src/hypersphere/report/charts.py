"""Small still pictures as SVG: histograms of a layer's numbers, and bars for one number a layer.

They take their colours from the page, so that they follow its light and dark.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from .markup import Html, element, join, number

_BINS = 24


def histograms(values: Mapping[str, Sequence[float]], symbol: str) -> Html:
    """One histogram a layer on a common axis; layers with a single number as bars."""
    single = {name: numbers[0] for name, numbers in values.items() if len(numbers) == 1 and math.isfinite(numbers[0])}
    many = {name: [v for v in numbers if math.isfinite(v)] for name, numbers in values.items() if len(numbers) > 1}
    every = [v for numbers in many.values() for v in numbers]
    parts = []
    if every:
        low, high = min(every), max(every)
        low, high = (low - 0.05, high + 0.05) if high - low < 1e-9 else (low, high)
        figures = [_histogram(name, numbers, low, high, symbol) for name, numbers in many.items() if numbers]
        parts.append(element("div", *figures, class_="multiples", data_label=f"{symbol} by layer"))
    return join([*parts, *([bars(single, symbol)] if single else [])])


def bars(values: Mapping[str, float], symbol: str) -> Html:
    """A row for each name: its bar and its number. The bars start at zero."""
    known = {name: value for name, value in values.items() if math.isfinite(value)}
    top = max((abs(value) for value in known.values()), default=0.0) or 1.0
    rows = [
        element(
            "tr",
            element("th", element("code", name), scope="row"),
            element("td", _bar(abs(value) / top), class_="bar"),
            element("td", number(value, 4)),
        )
        for name, value in known.items()
    ]
    head = element("tr", *(element("th", text, scope="col") for text in ("layer", "", symbol)))
    inner = element("table", element("thead", head), element("tbody", *rows), class_="bars")
    return element("div", inner, class_="scroll", tabindex=0, role="region", aria_label=f"{symbol} by layer")


def _bar(share: float) -> Html:
    bar = element("rect", width=f"{max(100 * share, 0.5):.1f}", height=8, rx=1, class_="fill")
    return element("svg", bar, viewBox="0 0 100 8", preserveAspectRatio="none", aria_hidden="true")


def _histogram(name: str, numbers: Sequence[float], low: float, high: float, symbol: str) -> Html:
    counts = [0] * _BINS
    for value in numbers:
        counts[min(int((value - low) / (high - low) * _BINS), _BINS - 1)] += 1
    mean = sum(numbers) / len(numbers)
    width, height = 240, 84
    step, top = width / _BINS, max(counts)
    columns = [
        element(
            "rect",
            x=f"{i * step + 0.5:.1f}",
            y=f"{height - h:.1f}",
            width=f"{step - 1:.1f}",
            height=f"{h:.1f}",
            class_="fill",
        )
        for i, count in enumerate(counts)
        if (h := count / top * (height - 4))
    ]
    place = (mean - low) / (high - low) * width
    marks = [
        element("line", x1=0, x2=width, y1=height, y2=height, class_="axis"),
        element("line", x1=f"{place:.1f}", x2=f"{place:.1f}", y1=0, y2=height, class_="mark"),
        *(
            element("text", number(value, 2), x=x, y=height + 15, text_anchor=anchor)
            for value, x, anchor in ((low, 0, "start"), ((low + high) / 2, width / 2, "middle"), (high, width, "end"))
        ),
    ]
    said = (
        f"{len(numbers)} values of {symbol} in {name}, from {number(min(numbers), 3)} to {number(max(numbers), 3)}, "
        f"mean {number(mean, 3)}"
    )
    picture = element("svg", *columns, *marks, viewBox=f"-1 -2 {width + 2} {height + 22}", role="img", aria_label=said)
    text = element("figcaption", element("code", name), f" mean {number(mean, 3)}, {len(numbers)} values")
    edges = [round(low + i * (high - low) / _BINS, 6) for i in range(_BINS + 1)]
    bins = [[edges[i], edges[i + 1], count] for i, count in enumerate(counts)]
    return element("figure", picture, text, data_layer=name, data_bins=json.dumps(bins, separators=(",", ":")))
