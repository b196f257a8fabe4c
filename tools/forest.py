"""A forest plot as SVG, without any library: our gain over the baseline with its interval, and the published gain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, LABELS, PLOT, ROW, HEAD, FOOT = 880, 210, 420, 22, 34, 34
OURS, PRINTED, FAINT, INK = "#1f5fa8", "#c2571a", "#c9ced6", "#20262e"


class Row(NamedTuple):
    """A cell: its name, our gain with the ends of its interval, the published gain if one is printed."""

    label: str
    gain: float
    low: float
    high: float
    published: float | None


def svg(panels: Sequence[tuple[str, Sequence[Row]]]) -> str:
    """The picture of some tables, each a panel with a scale of its own.

    Args:
        panels: Title and rows of each.
    """
    parts, top = [], 44
    for title, rows in panels:
        parts.append(_panel(title, rows, top))
        top += HEAD + ROW * len(rows) + FOOT
    words = "Gain over the baseline of the same table, in points: ours with its 95 % interval, and as published"
    key = (
        f'<circle cx="20" cy="34" r="4" fill="{OURS}"/><text x="32" y="38">ours</text>'
        f'{diamond(92, 34)}<text x="104" y="38">published</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}" '
        f'role="img" font-family="sans-serif" font-size="12" fill="{INK}">\n<title>{escape(words)}</title>\n'
        f'<rect width="{WIDTH}" height="{top}" fill="#ffffff"/>\n<text x="12" y="18">{escape(words)}</text>\n{key}\n'
        + "".join(parts)
        + "</svg>\n"
    )


def _panel(title: str, rows: Sequence[Row], top: int) -> str:
    values = [0.0, *(v for row in rows for v in (row.low, row.high, row.published) if v is not None)]
    step = _step(max(values) - min(values))
    first, last = math.floor(min(values) / step), math.ceil(max(values) / step)

    def at(value: float) -> float:
        return LABELS + PLOT * (value / step - first) / (last - first)

    bottom = top + HEAD + ROW * len(rows)
    out = [f'<text x="12" y="{top + 20}" font-weight="bold">{escape(title)}</text>\n']
    for mark in range(first, last + 1):
        x, colour = at(mark * step), INK if mark == 0 else FAINT
        out.append(f'<path d="M{x:.1f} {top + 28}V{bottom}" stroke="{colour}"/>')
        out.append(f'<text x="{x:.1f}" y="{bottom + 15}" text-anchor="middle">{mark * step:+g}</text>\n')
    for index, row in enumerate(rows):
        y = top + HEAD + ROW * index + ROW // 2
        out.append(f'<text x="{LABELS - 12}" y="{y + 4}" text-anchor="end">{escape(row.label)}</text>')
        out.append(f'<path d="M{at(row.low):.1f} {y}H{at(row.high):.1f}" stroke="{OURS}" stroke-width="2"/>')
        out.append(f'<circle cx="{at(row.gain):.1f}" cy="{y}" r="4" fill="{OURS}"/>')
        words = f"{row.gain:+.2f} [{row.low:+.2f}, {row.high:+.2f}]"
        if row.published is not None:
            out.append(diamond(at(row.published), y))
            words += f", published {row.published:+.2f}"
        out.append(f'<text x="{LABELS + PLOT + 16}" y="{y + 4}" font-size="11">{escape(words)}</text>\n')
    return "".join(out)


def diamond(x: float, y: float, r: int = 5) -> str:
    """The sign of a published number."""
    shape = f"M{x:.1f} {y - r:.1f}l{r} {r}l-{r} {r}l-{r} -{r}z"
    return f'<path d="{shape}" fill="#ffffff" stroke="{PRINTED}" stroke-width="2"/>'


def _step(span: float) -> float:
    """A round distance between marks, about six of them."""
    rough = max(span, 1e-6) / 6
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
