"""Write docs/results.md and its forest plots from results/*.json: python tools/results.py

Every number of the page comes from a run: final accuracy of each seed, mean final and mean best, beside the published
number. :mod:`hypersphere.recipes.evidence` finds the verdicts by one rule for all. What was not run is listed.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypersphere.recipes import Cell, Table, results, tables
from hypersphere.recipes.evidence import Evidence, evidence, not_run, results_of
from hypersphere.recipes.published import number_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import at_a_glance  # noqa: E402
import other_settings  # noqa: E402
import overview  # noqa: E402
import tuning  # noqa: E402
from forest import Row, svg  # noqa: E402
from overview import Shown, anchor, gain, verdict, wrapped  # noqa: E402

PAGE = ROOT / "docs" / "results.md"
GLANCE = ROOT / "docs" / "images" / "gains.svg"
FOREST = ROOT / "docs" / "images" / "forest.svg"
GLANCE_ALT = "Every published gain that was run, beside ours with its interval, method by method"
FINDINGS = ROOT / "tools" / "findings"
"""What the runs of a table say, in words: a file of paragraphs for each."""
SUMMARY = ROOT / "tools" / "summary.md"
"""What all of them say, a point for each method; ``{TABLE CELL}`` stands for our gain and the published one."""

HEAD = """This page compares our runs with the published numbers. `python tools/results.py` makes it from
[`results/`](../results), which holds every run with its seed, settings, versions and device. `hypersphere reproduce
TABLE` runs the cells that are missing.

Accuracies are in percent. *final* is the number at the last step, which is the one to compare; *best* is that of the
best evaluation of a run, averaged over the seeds. ± is the standard error of the mean over the seeds. Brackets hold the
95 % interval of the difference from our own baseline (Welch)."""


def page() -> str:
    """The whole page."""
    parts = [f"# Results\n\n{_paragraphs(HEAD)}\n", _overview(), _summary(), _gains()]
    parts += [_section(table, measurements) for table, measurements in _measured()]
    return "\n".join([*parts, _missing()])


def glance() -> str:
    """The picture of the published gains, on one screen."""
    return at_a_glance.picture(_shown())


def forest() -> str:
    """The picture of every gain that has an interval, table by table."""
    panels = []
    for table, _ in _measured():
        if table.metric in ("accuracy", "error"):
            rows = [
                Row(one.cell.name, one.gain, *one.interval, one.published_gain)
                for one in (shown.one for shown in _shown() if shown.table is table)
                if one.gain is not None and one.interval is not None and not one.cell.at_start
            ]
            better = "more" if table.metric == "accuracy" else "less"
            panels += [(f"{table.name} ({table.metric} in %, {better} is better)", rows)] if rows else []
    return svg(panels)


@functools.cache
def _measured() -> list[tuple[Table, list[dict[str, Any]]]]:
    named = [tables()[path.stem] for path in sorted((ROOT / "results").glob("*.json"))]
    return [(table, results.read(table, ROOT / "results")) for table in named]


@functools.cache
def _shown() -> list[Shown]:
    return overview.once(_measured())


def _summary() -> str:
    """The methods, a point for each."""
    found = {(table.name, one.cell.name): one for table, measured in _measured() for one in evidence(table, measured)}

    def numbers(match: re.Match[str]) -> str:
        table, cell = match[1].split()
        one = found[table, cell]
        low, high = one.interval
        return f"{one.gain:+.2f} ({low:+.2f} to {high:+.2f}; published {one.published_gain:+.2f})"

    points = re.sub(r"\{([^}]*)\}", numbers, SUMMARY.read_text(encoding="utf-8")).split("\n- ")
    head = """This is what the runs say of each method. Numbers are differences from our own baseline in points of the
        accuracy or of the error, with their 95 % interval and the published difference."""
    lines = [wrapped(f"- {point.removeprefix('- ')}", "  ") for point in points]
    return "\n".join(["## In short", "", wrapped(head), "", *lines, ""])


def _overview() -> str:
    """How many published numbers were run, what became of the published gains, and what the verdicts mean."""
    every = _documents()
    printed = [cell for table in every for cell in table.cells if cell.published is not None]
    found = [one for table, measurements in _measured() if table in every for one in evidence(table, measurements)]
    compared = [one for one in found if one.cell.published is not None]
    numbered = sum(any(cell.published is not None for cell in table.cells) for table in every)
    early, lost = sum(one.cell.at_start for one in compared), sum(one.diverged > 0 for one in compared)
    until = f", {lost} of them until a seed diverged" if lost else ""
    text = f"""Of {len(printed)} published numbers in {numbered} tables and figures (beside {len(every) - numbered}
        figures that print none), {len(compared)} were run as the recipes say, to the last step{until};
        {early} of them are energies before the first step. The end of the page lists the tables that were not run. A
        comparison that stands in several tables is counted once. The tables `released.*` have numbers of MHE, CoMHE and
        OPT again, trained as the authors' public code does where it differs from the text; they are not counted."""
    limits = f"""The intervals are of the seeds alone: another test set, machine or version is not in them. They treat
        two trainings as independent, though both have the same seeds. Half of those of accuracies and errors from
        three seeds reach {overview.resolution(_shown()):.1f} points or more to each side, so three seeds often miss
        gains below that. Nothing corrects for the number of intervals: of twenty, one misses the true difference on
        average. In the text below, *level with* and *shows no gain* mean that the interval includes 0, not that there
        is no difference. A network *knows* 78 % of its (last) training images where its accuracy on the last logged
        training batches is 78 %; *of the logs* marks numbers that are in the logs of the runs and not in the JSON."""
    head = """The picture has every published gain over a baseline for which our runs have both, but for energies before
        training, whose unit is another. Arrows point to numbers outside of it. The table counts what became of these
        gains; *more* and *less* say whether our gain is larger or smaller than the published one."""
    picture = f"![{GLANCE_ALT}](images/{GLANCE.name})"
    lines = ["## At a glance", "", picture, "", wrapped(head), "", overview.counts(_shown()), ""]
    return "\n".join(
        [*lines, "One rule gives the verdicts:", "", *overview.rules(), "", wrapped(text), "", wrapped(limits), ""]
    )


def _gains() -> str:
    """Every gain and every baseline, in tables and as a picture."""
    text = """A gain is our cell minus our baseline, in the unit of the table: of an accuracy a plus is better, of an
        error a minus. The links lead to every seed and to what else the runs say."""
    lines = ["## Gain by gain", "", wrapped(text), "", overview.gains(_shown())]
    return "\n".join([*lines, "### All gains as a picture", "", "![Gains over the baseline](images/forest.svg)", ""])


def _section(table: Table, measurements: list[dict[str, Any]]) -> str:
    lines = [f"## {table.name}", "", f"{table.title.rstrip('.')}.", ""]
    known = {one.cell.name: one for one in evidence(table, measurements)}
    for steps in sorted({m["steps"] for m in measurements}, reverse=True):
        chosen = [m for m in measurements if m["steps"] == steps and not m.get("changed")]
        if not chosen or steps == 1:  # a single step gives what is known before training, and no more
            continue
        devices = sorted({f"{m['environment']['device']}, torch {m['environment']['torch']}" for m in chosen})
        lines += [f"{steps:,} steps on {'; '.join(devices)}; {table.metric}.", ""]
        lines += [
            "| cell | published | each seed | final | difference | best | over our baseline | verdict |",
            "| --- | ---: | --- | ---: | ---: | ---: | --- | --- |",
        ]
        for cell in table.cells:
            mine = results.ours(table, cell, chosen, steps)
            if mine is None or cell.at_start:
                continue
            seeds = [m for m in chosen if m["cell"] == cell.training]
            one = known.get(cell.name) if mine["whole"] else None
            lines.append(_row(table, cell, seeds, mine, one))
        lines.append("")
        twins = sorted({(m["cell"], m["recipe"]) for m in chosen if m["recipe"] != f"{table.name}.{m['cell']}"})
        if twins:
            text = ", ".join(f"{cell} is {recipe}" for cell, recipe in twins)
            elsewhere = [name for name in tables() if any(recipe.startswith(f"{name}.") for _, recipe in twins)]
            told = [f"[{name}](#{anchor(name)})" for name in elsewhere if _finding(name)]
            more = f" What they show is said there: {', '.join(told)}." if told and not _finding(table.name) else ""
            lines += [wrapped(f"These settings were trained once, under the name of another table: {text}.{more}"), ""]
    lines += [*_started(known.values(), measurements), *_tuned(table, measurements), *_variants(table, measurements)]
    if finding := _finding(table.name):
        lines += [_paragraphs(finding), ""]
    missing = not_run(table, measurements)
    if missing:
        lines += [wrapped(f"Not run: {len(missing)} of {len(table.cells)} cells ({', '.join(missing)})."), ""]
    return "\n".join(lines)


def _row(table: Table, cell: Cell, seeds: list[dict[str, Any]], mine: dict[str, Any], one: Evidence | None) -> str:
    """A line of a table; ``one`` is what the seeds say where they were trained as the recipe says."""
    numbers = [number_of(m, cell.measure) for m in seeds]
    values = [table.ours(value, cell.measure) for value in numbers if value is not None]
    each = [
        (f"diverged at step {m['diverged']:,}" if "diverged" in m else "not measured")
        if number is None
        else f"{table.ours(number, cell.measure):.2f}"
        for m, number in zip(seeds, numbers, strict=True)
    ]
    shown = ", ".join(each[:_SHOWN]) + (f", ... ({len(each)} seeds)" if len(each) > _SHOWN else "")
    published = "" if cell.published is None else f"{cell.published:.2f}"
    final = gap = ""
    mean = mine["final"] if one is None else one.mean  # the same rounding as in the overview
    if mean is not None:
        spread = tuning.mean(values).partition("±")[2]
        final = f"**{mean:.2f}**" + (f" ±{spread}" if spread else "")
        gap = f"{mean - cell.published:+.2f}" if cell.published is not None and mine["whole"] else ""
    best = "" if mine["best"] is None else f"{mine['best']:.2f}"
    return f"| {cell.name} | {published} | {shown} | {final} | {gap} | {best} | {gain(one)} | {verdict(one)} |"


def _finding(name: str) -> str:
    """What the runs of a table say, if anything was written of it."""
    path = FINDINGS / f"{name}.md"
    return path.read_text(encoding="utf-8").strip() if path.exists() else ""


def _started(found: Iterable[Evidence], measurements: list[dict[str, Any]]) -> list[str]:
    """The numbers that are known before training."""
    rows = [one for one in found if one.cell.at_start and one.cell.published is not None]
    if not rows:
        return []
    seeds = [m for one in rows for m in results_of(one.cell, measurements)]
    devices = sorted({f"{m['environment']['device']}, torch {m['environment']['torch']}" for m in seeds})
    lines = ["| cell | published | each seed | mean | difference | over our baseline | verdict |"]
    lines += ["| --- | ---: | --- | ---: | ---: | --- | --- |"]
    for one in rows:
        published, seeds = one.cell.published, ", ".join(f"{value:.4f}" for value in one.values)
        mean = f"**{one.mean:.4f}**" + ("" if one.error is None else f" ± {one.error:.4f}")
        gap = f"{one.mean - published:+.4f}"
        lines.append(f"| {one.cell.name} | {published:.4f} | {seeds} | {mean} | {gap} | {gain(one)} | {verdict(one)} |")
    return [f"Before the first step, on {'; '.join(devices)}:", "", *lines, ""]


def _tuned(table: Table, measurements: list[dict[str, Any]]) -> list[str]:
    """What every method reaches with the setting that was best on what was held out, where that was searched."""
    lines: list[str] = []
    validated = [m for m in measurements if m.get("changed", {}).get("data.validate")]
    for steps in sorted({m["steps"] for m in validated}) if table.name in tuning.GRIDS else ():
        seeds = tuning.seeds(table.name, ROOT / "results", steps)
        if not seeds:
            continue
        rest = tuning.besides(table.name, ROOT / "results", steps)
        given = f", all with `{rest}`" if rest else ""
        count = "one seed" if seeds == 1 else f"{seeds} seeds of their own"
        if table.name.startswith("open."):
            where, also = (
                "every fifth training class, which was left out of training (*held out*). The chosen settings were "
                "then trained on all training classes and tested",
                " *train* is the accuracy on the last training batches, *mean feature* the length of the mean unit "
                "feature of the test images, 1 if all point in one direction, and *collapsed* how many of the settings "
                "ended with a warning or with a mean unit feature of 0.95 or more.",
            )
        else:
            where = "the validation nodes (*held out*). The chosen settings were then tested on the test nodes"
            also = ""
        text = (
            f"Every method was tuned by the same budget, {steps:,} steps a run{given}. Settings (nine of each, "
            f"{count}) were chosen by the accuracy on {where} (*test*). *recipe's* is the accuracy on the same test of "
            f"the recipe's own setting in as many steps.{also}"
        )
        lines += [wrapped(text), "", *tuning.table(table.name, ROOT / "results", steps), ""]
    return lines


def _variants(table: Table, measurements: list[dict[str, Any]]) -> list[str]:
    """What cells reach with other settings, where a table's gain was looked for in them."""
    base = other_settings.BASE.get(table.name, "").format(row="ROW", column="COLUMN")
    rows = other_settings.rows(table, measurements)
    own = " Beside them are runs of the recipe's own settings in as many steps." if "the recipe's" in str(rows) else ""
    text = f"""These runs have other settings than the recipe.{own} *gain* is the difference from `{base}` under the
        same other settings."""
    return [wrapped(text), "", *rows, ""] if rows else []


_SHOWN = 5


_NOT_HERE = {
    "casia": "CASIA-WebFace",
    "imagenet": "ImageNet",
    "imdb_face": "IMDb-Face",
    "miniimagenet": "mini-ImageNet",
    "ms_celeb": "MS-Celeb",
}


def _missing() -> str:
    """The tables without any number: those whose data can be had, and those whose data we do not have."""
    run = {table.name for table, _ in _measured()}
    open_, closed = [], []
    for table in _documents():
        if table.name in run:
            continue
        needs = sorted({_NOT_HERE.get(cell.make().data.name, "") for cell in table.cells} - {""})
        needs += ["Inception-v3"] if table.metric == "inception score" else []
        cells = f"{len(table.cells)} cell{'s' * (len(table.cells) > 1)}"
        where = f" ({', '.join(needs)})" if needs else ""
        (closed if needs else open_).append(f"- `{table.name}`{where}: {cells}. {table.title.rstrip('.')}.")
    head = """We have no number for any cell of these tables and figures. The plan `tools/headlines.plan` trains what
        is missing, here and in the tables above, baselines and headlines first. The data sets of these are public:"""
    lines = [
        "## Not run",
        "",
        wrapped(head),
        "",
        *open_,
        "",
        "These need data that we do not have:",
        "",
        *closed,
        "",
    ]
    return "\n".join(lines)


def _documents() -> list[Table]:
    """The tables and figures of the documents, without the recipes for one's own data."""
    return [table for table in tables().values() if table.name.startswith(("paper.", "thesis."))]


def _paragraphs(text: str) -> str:
    return "\n\n".join(wrapped(part) for part in text.split("\n\n"))


if __name__ == "__main__":
    for path, content in ((PAGE, page()), (GLANCE, glance()), (FOREST, forest())):
        path.write_text(content)
        print(path.relative_to(ROOT))
