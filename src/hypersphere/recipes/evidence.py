"""What our numbers say about the published ones: gains over the baseline with their intervals, and a verdict.

A gain is the mean of a cell's seeds minus the mean of its baseline's. Its 95 % interval is Welch's, which lets the two
spreads differ. A document prints one number for each, so the published gain has no interval.

A printed baseline is compared with what further runs of ours may give: one, or the mean of as many as were printed.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .published import has_diverged, number_of
from .table import Cell, Table

LEVEL = 0.95
# Where the baseline of a cell is not found by its name (see ``baseline``): the first that is another cell.
_BASELINES = {
    "paper.table1": "{row}.softmax original.softmax",  # a loss gains over the softmax, an operator over the plain one
    "paper.section4.3": "sigmoid0.3",
    "paper.figure5": "{row}.batch",
    "thesis.sectionD.6": "am-softmax",
    "thesis.table4.1": "standard-gradients",
    "thesis.table7.2": "mean0 energy0",
    "thesis.table7.6": "{row}.original",
    "thesis.table7.10": "{row}.plain",
    "thesis.tableA.1": "A.{column}",
    "thesis.tableA.2": "softmax64.{column}",
    "thesis.tableE.4": "every-never",
    "thesis.sectionE.8": "shared",
    "open.omniglot_few_shot": "baseline.plain.{column}",
}
_WORDS = ("baseline", "original", "softmax", "resnet32", "sphereface")
VERDICTS = {
    "reproduced": "the interval of our gain excludes 0 and includes the published gain",
    "reproduced in direction": "the interval excludes 0 on the published side, and also excludes the published gain",
    "not reproduced": "the interval includes 0 or lies on the other side of it, and excludes the published gain; or a "
    "seed diverged, so that its loss or a weight was no longer finite",
    "undecided": "the interval includes both 0 and the published gain: more seeds would tell, unless 0 is published",
    "not measured": "the cell or its baseline has fewer than two seeds, or a seed of the baseline diverged",
    "compatible": "of a baseline, or a cell without one in its table: one more run of ours could give the published "
    "number, or the mean of ten more where it is one of ten (95 % prediction interval, which of two or three seeds is "
    "wide)",
    "not compatible": "of such a cell: it could not",
}


@dataclass(frozen=True)
class Evidence:
    """What the seeds of a cell say.

    Args:
        cell: The cell.
        values: The number of each seed, as the table counts; of those that did not diverge.
        base: The name of the cell that it is compared with; None for a baseline itself, and where there is none.
        gain: Mean minus the baseline's mean; None without a baseline that was run, and where a seed diverged.
        interval: Its 95 % interval; None where one of them has a single seed.
        published_gain: The same of the printed numbers; None where one is not printed, and for times.
        runs: How many runs the printed number is the mean of.
        diverged: How many seeds have no number because they diverged. What the others have is no mean to compare.
    """

    cell: Cell
    values: tuple[float, ...]
    base: str | None
    gain: float | None
    interval: tuple[float, float] | None
    published_gain: float | None
    runs: int = 1
    diverged: int = 0

    @property
    def seeds(self) -> int:
        """How many were trained."""
        return len(self.values) + self.diverged

    @property
    def mean(self) -> float | None:
        """None where a seed diverged."""
        return None if self.diverged else statistics.fmean(self.values)

    @property
    def error(self) -> float | None:
        """Standard error of the mean; None for a single seed, and where a seed diverged."""
        if self.diverged or len(self.values) < 2:
            return None
        return statistics.stdev(self.values) / math.sqrt(len(self.values))

    @property
    def prediction(self) -> tuple[float, float] | None:
        """The 95 % prediction interval of the mean of ``runs`` more of ours; None where there is no ``error``.

        Of three seeds it is wide.
        """
        if self.mean is None or self.error is None:
            return None
        spread = statistics.stdev(self.values) * math.sqrt(1 / self.runs + 1 / len(self.values))
        half = student_t(len(self.values) - 1) * spread
        return self.mean - half, self.mean + half

    @property
    def expected(self) -> bool | None:
        """For a cell without a baseline: whether the printed number is one that further seeds of ours could give.

        None without a printed number or a second seed, and for times, which are of another device.
        """
        if self.cell.published is not None and self.diverged:
            return False
        if self.cell.published is None or self.prediction is None or self.cell.is_time:
            return None
        low, high = self.prediction
        return low <= self.cell.published <= high

    @property
    def verdict(self) -> str | None:
        """One of the first five :data:`VERDICTS`; None where no gain is printed."""
        if self.published_gain is None:
            return None
        if self.diverged:
            return "not reproduced"
        if self.interval is None:
            return "not measured"
        low, high = self.interval
        holds = low <= self.published_gain <= high
        if low <= 0 <= high:
            return "undecided" if holds else "not reproduced"
        if low * self.published_gain <= 0:
            return "not reproduced"
        return "reproduced" if holds else "reproduced in direction"


def evidence(table: Table, measurements: Sequence[Mapping[str, Any]]) -> list[Evidence]:
    """Of every cell that was run to its end with the recipe's own settings, in the order of the table."""
    found = {cell.name: _values(table, cell, measurements) for cell in table.cells}
    lost = {cell.name: _diverged(cell, measurements) for cell in table.cells}
    cells = {cell.name: cell for cell in table.cells}
    out = []
    for cell in table.cells:
        values = found[cell.name]
        if not values and not lost[cell.name]:
            continue
        base = baseline(table, cell)
        compares = base is not None and not lost[cell.name] and not lost[base]
        others = found[base] if base is not None and compares else ()
        gain = statistics.fmean(values) - statistics.fmean(others) if others else None
        printed = None if base is None else cells[base].published
        own = None if cell.is_time else cell.published  # seconds gained on another device say nothing
        published = None if printed is None or own is None else own - printed
        runs = 1 if cell.at_start else table.runs  # energies at the start are those of one (thesis 7.5.3)
        out.append(Evidence(cell, values, base, gain, welch(values, others), published, runs, lost[cell.name]))
    return out


def baseline(table: Table, cell: Cell) -> str | None:
    """The cell that a cell is compared with, of the same measurement; None for itself, and for tables without one.

    The baseline of ``half-mhe.s2.cifar100`` is ``baseline.cifar100``, that of ``cifar10.m4`` is ``cifar10.softmax``:
    the name with a word for the baseline in the place of its first parts, or of its last.
    """
    parts, pattern = cell.name.split("."), _BASELINES.get(table.name)
    if pattern is not None:
        places = {"row": cell.name.rpartition(".")[0], "column": parts[-1]}
        names = [name for one in pattern.split() if (name := one.format(**places)) != cell.name]
    else:
        names = [".".join([word, *parts[k:]]) for word in _WORDS for k in range(1, len(parts) + 1)]
        names += [".".join([*parts[:-1], word]) for word in _WORDS]
    others = {one.name for one in table.cells if one.measure == cell.measure}
    name = next((name for name in names if name in others), cell.name)
    return None if name == cell.name else name


def not_run(table: Table, measurements: Sequence[Mapping[str, Any]]) -> list[str]:
    """The cells of a table that no seed was trained for with the recipe's own settings and steps."""
    run = {one.cell.name for one in evidence(table, measurements)}
    return [cell.name for cell in table.cells if cell.name not in run]


@functools.cache
def student_t(freedom: float, level: float = LEVEL) -> float:
    """t with P(|T| ≤ t) = ``level`` for Student's distribution with so many degrees of freedom, not only whole ones."""
    if freedom <= 0:
        raise ValueError(f"freedom={freedom} must be positive: an interval needs two seeds")
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)

    def within(t: float, pieces: int = 2000) -> float:
        """Simpson's rule in x = √freedom · tan u, whose density is cos^(freedom−1)."""
        end = math.atan(t / math.sqrt(freedom))
        points = [math.cos(end * i / pieces) ** (freedom - 1) for i in range(pieces + 1)]
        total = points[0] + points[-1] + 4 * sum(points[1:-1:2]) + 2 * sum(points[2:-1:2])
        return 2 * scale * math.sqrt(freedom) * total * end / pieces / 3

    t, step = 0.0, 1.0
    while step > 1e-12 * t:  # Newton's steps from below, where the probability is concave: they never pass the end
        step = (level - within(t)) / (2 * scale * (1 + t * t / freedom) ** (-(freedom + 1) / 2))
        t += step
    return t


def welch(values: Sequence[float], others: Sequence[float]) -> tuple[float, float] | None:
    """Welch's 95 % interval of the difference of two means; None where one of them has a single value."""
    if len(values) < 2 or len(others) < 2:
        return None
    shares = [statistics.variance(one) / len(one) for one in (values, others)]
    gain, total = statistics.fmean(values) - statistics.fmean(others), sum(shares)
    if total == 0:
        return gain, gain
    pairs = zip(shares, (values, others), strict=True)
    half = student_t(total**2 / sum(share**2 / (len(one) - 1) for share, one in pairs)) * math.sqrt(total)
    return gain - half, gain + half


def results_of(cell: Cell, measurements: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The seeds of a cell's training with its own settings and steps; of any steps where they do not matter."""
    steps = cell.make().schedule.steps
    mine = [m for m in measurements if m["cell"] == cell.training and not m.get("changed")]
    if cell.at_start:
        return list({m["seed"]: m for m in mine if number_of(m, cell.measure) is not None}.values())
    return [m for m in mine if m["steps"] == steps]


def _values(table: Table, cell: Cell, measurements: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    """The numbers of a cell's seeds, at the recipe's own settings and steps."""
    numbers = [number_of(m, cell.measure) for m in results_of(cell, measurements)]
    return tuple(table.ours(value, cell.measure) for value in numbers if value is not None)


def _diverged(cell: Cell, measurements: Sequence[Mapping[str, Any]]) -> int:
    """How many seeds of a cell diverged before they had its number."""
    return sum(has_diverged(m, cell.measure) for m in results_of(cell, measurements))
