"""The picture that docs/results.md begins with: every published gain beside ours, on one screen, right is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from forest import INK, PRINTED, diamond
from overview import FAMILIES, PUBLIC, Shown, mean, side

WIDTH, LABELS, PLOT, ROW, TOP = 880, 250, 390, 15, 62
FIRST, LAST = -6, 8  # points; what lies outside is drawn as an arrow at the edge
COLOURS = {"reproduced": "#14804a", "reproduced in direction": "#1f5fa8", "not reproduced": "#8a8f98"}
COLOURS |= {"undecided": "#8a8f98", "not measured": "#8a8f98"}
GRID, ZERO = "#e3e6ea", "#7b828c"


def picture(shown: Sequence[Shown]) -> str:
    """Draw the gains that have a verdict, method by method, without energies before training, whose unit is another.

    Args:
        shown: Every number of the first screens.
    """
    parts, y = [], TOP
    for heading in (*FAMILIES, PUBLIC):
        mine = [one for one in shown if one.heading == heading and one.one.verdict and not one.one.cell.at_start]
        if mine:
            parts.append(f'<text x="12" y="{y + 12}" font-weight="bold">{escape(heading)}</text>\n')
            y += ROW + 2
        for one in mine:
            parts.append(_row(one, y + ROW // 2))
            y += ROW
        y += 6 if mine else 0
    words = "Gains over our own baseline in points of the accuracy or of the error: right is better"
    axis = "".join(_mark(value, y) for value in range(FIRST, LAST + 1, 2))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 26}" viewBox="0 0 {WIDTH} {y + 26}" '
        f'role="img" font-family="sans-serif" font-size="11" fill="{INK}">\n<title>{escape(words)}</title>\n'
        f'<rect width="{WIDTH}" height="{y + 26}" fill="#ffffff"/>\n<text x="12" y="18" font-size="12">{words}</text>\n'
        + _key(38)
        + axis
        + "".join(parts)
        + "</svg>\n"
    )


def _key(y: int) -> str:
    """What the signs mean."""
    parts, x = [], 18
    for word in ("reproduced", "reproduced in direction", "not reproduced", "undecided"):
        parts.append(f'{_dot(x, y, word)}<text x="{x + 10}" y="{y + 4}">{word}</text>')
        x += 26 + 6 * len(word)
    parts.append(f'{diamond(x, y, 4)}<text x="{x + 10}" y="{y + 4}">published</text>')
    return "".join(parts) + f'<text x="{x + 86}" y="{y + 4}">the line is the 95 % interval of ours</text>\n'


def _mark(value: int, bottom: int) -> str:
    x, colour = _at(value), ZERO if value == 0 else GRID
    line = f'<path d="M{x:.1f} {TOP - 6}V{bottom}" stroke="{colour}"/>'
    return f'{line}<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{f"{value:+d}" if value else 0}</text>\n'


def _row(shown: Shown, y: int) -> str:
    one = shown.one
    sign = 1 if shown.table.metric == "accuracy" else -1
    label = f"{shown.table.name.removeprefix('thesis.')} {one.cell.name}"
    word = side(one).partition(",")[0]
    out = [f'<text x="{LABELS - 8}" y="{y + 4}" text-anchor="end">{escape(label)}</text>']
    numbers = mean(one) if one.gain is None else f"{sign * one.gain:+.2f}"
    if one.interval is not None:
        low, high = sorted(sign * bound for bound in one.interval)
        numbers += f" [{low:+.2f}, {high:+.2f}]"
        ends = f"M{_at(low):.1f} {y}H{_at(high):.1f}"
        out.append(f'<path d="{ends}" stroke="{COLOURS[word]}" stroke-width="2"/>')
    beside = 0
    if one.published_gain is not None:
        printed = sign * one.published_gain
        beside = 9 if _is_outside(printed) else 0  # two arrows stand side by side
        out.append(_arrow(printed, y, PRINTED) if _is_outside(printed) else diamond(_at(printed), y, 4))
        numbers += f", published {printed:+.2f}"
    if one.gain is not None:
        gain = sign * one.gain
        out.append(_arrow(gain, y, COLOURS[word], beside) if _is_outside(gain) else _dot(_at(gain), y, word))
    out.append(f'<text x="{LABELS + PLOT + 12}" y="{y + 4}" font-size="10">{escape(numbers)}</text>\n')
    return "".join(out)


def _dot(x: float, y: int, word: str) -> str:
    """Filled where the runs decide; hollow where they do not."""
    fill = "#ffffff" if word in ("undecided", "not measured") else COLOURS[word]
    return f'<circle cx="{x:.1f}" cy="{y}" r="3.5" fill="{fill}" stroke="{COLOURS[word]}" stroke-width="1.5"/>'


def _arrow(value: float, y: int, colour: str, inward: int = 0) -> str:
    step = 6 if value > LAST else -6
    x = _at(value) - math.copysign(inward, step)
    return f'<path d="M{x - step:.1f} {y - 4}L{x:.1f} {y}L{x - step:.1f} {y + 4}z" fill="{colour}"/>'


def _is_outside(value: float) -> bool:
    return not FIRST <= value <= LAST


def _at(value: float) -> float:
    return LABELS + PLOT * (min(max(value, FIRST), LAST) - FIRST) / (LAST - FIRST)
