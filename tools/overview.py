"""The first screens of docs/results.md: what became of the published gains, counted and then gain by gain."""

from __future__ import annotations

import math
import re
import statistics
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hypersphere.recipes import Cell, Table
from hypersphere.recipes.evidence import VERDICTS, Evidence, baseline, evidence, results_of

FAMILIES = {"Large-margin softmax": "2A", "SphereNet": "3B", "Decoupled networks": "4C", "MHE": "5D", "CoMHE": "6E"}
FAMILIES |= {"OPT": "7F", (EARLY := "Energies before training"): ""}
"""The methods, with the chapter of the thesis that is about each and its appendix; and what needs no training."""
PUBLIC = "As the public code trains"
"""The heading of the tables ``released.*``, which count as no family: their numbers are those of the thesis again."""
COLUMNS = (
    "reproduced",
    "reproduced in direction, more",
    "reproduced in direction, less",
    "not reproduced",
    "undecided",
)
COLUMNS += ("not measured",)
"""The verdicts on gains, as ``side`` names them."""
Measured = Sequence[tuple[Table, list[dict[str, Any]]]]


class Shown(NamedTuple):
    """A number of the first screens: its table, what its seeds say, and what those of its baseline say."""

    table: Table
    one: Evidence
    base: Evidence | None

    @property
    def family(self) -> str | None:
        """The method it belongs to; None in the tables that are not of the documents."""
        name = self.table.name
        if self.one.cell.at_start:
            return EARLY
        if name.startswith("paper."):
            return "SphereNet"
        chapter = re.match(r"thesis\.[a-z]+(.)", name)
        return next((family for family, own in FAMILIES.items() if chapter and chapter[1] in own), None)

    @property
    def heading(self) -> str | None:
        """Where it stands on the page."""
        return PUBLIC if self.table.name.startswith("released.") else self.family


def once(measured: Measured) -> list[Shown]:
    """Every number that has a baseline or is one: each training once, and each comparison of two trainings once.

    One training can stand in several tables. It is shown in that of its own name, and wherever else its baseline is
    another training than there.
    """
    every = [_recipes(table, measurements) for table, measurements in measured]
    seen = {pair for shown in every for one, pair, own in shown if own}
    out = []
    for (table, _), shown in zip(measured, every, strict=True):
        known = {one.cell.name: one for one, _, _ in shown}
        for one, pair, own in shown:
            if own or (one.gain is not None and pair not in seen):
                seen.add(pair)
                out.append(Shown(table, one, known.get(one.base or "")))
    return out


def _recipes(table: Table, measurements: list[dict[str, Any]]) -> list[tuple[Evidence, tuple[Any, ...], bool]]:
    """The evidence of a table with the two trainings that it compares, and whether the cell's has the table's name."""
    every = evidence(table, measurements)
    recipes = {one.cell.name: results_of(one.cell, measurements)[0]["recipe"] for one in every}
    out = []
    for one in every:
        recipe = recipes[one.cell.name]
        pair = (recipe, recipes.get(one.base or ""), one.cell.measure)
        out.append((one, pair, recipe == f"{table.name}.{one.cell.training}"))
    return out


def counts(shown: Iterable[Shown]) -> str:
    """The table of verdicts: a line for each method, and one for all; a verdict that no gain has has no column."""
    every = [one for one in shown if one.family]
    sides = {side(one.one) for one in every}
    columns = [name for name in COLUMNS if name in sides]
    short = [name.replace("reproduced in direction", "in direction") for name in columns]
    heads = ["method", "gains run", *short, "baselines compatible"]
    lines = [f"| {' | '.join(heads)} |", f"| --- |{' ---: |' * (len(heads) - 1)}"]
    for family in FAMILIES:
        mine = [one for one in every if one.family == family]
        lines.append(_count(f"[{family}](#{anchor(family)})", mine, columns))
    return "\n".join([*lines, _count("all", every, columns)])


def _count(name: str, shown: Sequence[Shown], columns: Sequence[str]) -> str:
    found = Counter(side(one.one) for one in shown)
    bases = [verdict(one.one) for one in shown if one.one.verdict is None and verdict(one.one)]
    numbers = [sum(found[word] for word in columns), *(found[word] or "" for word in columns)]
    numbers.append(f"{bases.count('compatible')} of {len(bases)}")
    return f"| {name} | {' | '.join(map(str, numbers))} |"


def side(one: Evidence) -> str:
    """The verdict on a gain; of one that is reproduced in direction also whether it is more or less than published."""
    if one.verdict != "reproduced in direction" or one.gain is None or one.published_gain is None:
        return verdict(one)
    return f"{one.verdict}, {'more' if abs(one.gain) > abs(one.published_gain) else 'less'}"


def resolution(shown: Iterable[Shown]) -> float:
    """The median half-width of the intervals that three seeds of an accuracy or error give beside a published gain."""
    gains = [one.one for one in shown if one.family not in (None, EARLY) and one.one.verdict is not None]
    found = [one for one in gains if len(one.values) == 3]
    return statistics.median((one.interval[1] - one.interval[0]) / 2 for one in found if one.interval is not None)


def gains(shown: Sequence[Shown]) -> str:
    """The tables of every method: its gains, then the numbers that have no baseline in their table."""
    lines = []
    for heading in (*FAMILIES, PUBLIC):
        mine = [one for one in shown if one.heading == heading]
        lines += [f"### {heading}", ""]
        rows = [_row(one) for one in mine if one.one.verdict is not None]
        if rows:
            lines += ["| gain | of | our baseline (published) | published gain | our gain | verdict | seeds |"]
            lines += ["| --- | --- | ---: | ---: | --- | --- | --- |", *rows, ""]
        rows = [_alone(one) for one in mine if one.one.base is None and one.one.expected is not None]
        if rows:
            lines += ["| number | of | published | ours | further runs of ours may give | verdict | seeds |"]
            lines += ["| --- | --- | ---: | ---: | --- | --- | --- |", *rows, ""]
    return "\n".join(lines)


def _row(shown: Shown) -> str:
    one, base = shown.one, shown.base
    number = f".{digits(one.cell)}f"
    ours = "not run" if base is None else mean(base)
    printed = "" if base is None or base.cell.published is None else f" ({base.cell.published:{number}})"
    same = base is None or base.seeds == one.seeds
    seeds = str(one.seeds) if base is None or same else f"{one.seeds}, {base.seeds} of the baseline"
    words = [_cell(shown), _of(shown), ours + printed, f"{one.published_gain:+{number}}"]
    words.append(mean(one) if one.diverged else gain(one, bold=True))
    return f"| {' | '.join([*words, side(one), seeds])} |"


def _alone(shown: Shown) -> str:
    one = shown.one
    number = f".{digits(one.cell)}f"
    low, high = one.prediction or (math.nan, math.nan)
    more = "one" if one.runs == 1 else f"the mean of {one.runs}"
    bases = {baseline(shown.table, cell) for cell in shown.table.cells}
    words = [_cell(shown) + ("" if one.cell.name in bases else " (no baseline)"), _of(shown)]
    words += [
        f"{one.cell.published:{number}}",
        f"**{mean(one)}**",
        "" if one.prediction is None else f"{more}: {low:{number}} to {high:{number}}",
    ]
    return f"| {' | '.join([*words, verdict(one), str(one.seeds)])} |"


def _cell(shown: Shown) -> str:
    over = "" if shown.one.base is None else f" over {shown.one.base}"
    return f"[{shown.table.name}](#{anchor(shown.table.name)}) {shown.one.cell.name}{over}"


def _of(shown: Shown) -> str:
    return "energy" if shown.one.cell.at_start else shown.table.metric


def anchor(heading: str) -> str:
    """The address of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def mean(one: Evidence) -> str:
    """The mean of the seeds, or how many of them diverged."""
    return f"{one.diverged} diverged" if one.mean is None else f"{one.mean:.{digits(one.cell)}f}"


def gain(one: Evidence | None, bold: bool = False) -> str:
    """Our gain with its interval; empty where there is none."""
    if one is None or one.gain is None:
        return ""
    shown = f"+.{digits(one.cell)}f"
    bounds = "" if one.interval is None else f" [{one.interval[0]:{shown}}, {one.interval[1]:{shown}}]"
    return f"**{one.gain:{shown}}**{bounds}" if bold else f"{one.gain:{shown}}{bounds}"


def digits(cell: Cell) -> int:
    """How many decimals its numbers are shown with."""
    return 4 if cell.at_start else 2


def verdict(one: Evidence | None) -> str:
    """The verdict on a gain, or on a baseline's own number."""
    if one is None or one.verdict is not None:
        return "" if one is None else str(one.verdict)
    if one.base is not None or one.expected is None:
        return ""
    return "compatible" if one.expected else "not compatible"


def rules(verdicts: Mapping[str, str] = VERDICTS) -> list[str]:
    """What the verdicts mean, a point for each."""
    return [wrapped(f"- *{name}*: {meaning}.", "  ") for name, meaning in verdicts.items()]


def wrapped(text: str, indent: str = "") -> str:
    """A paragraph in lines of 120 characters."""
    return textwrap.fill(" ".join(text.split()), 120, break_on_hyphens=False, subsequent_indent=indent)
