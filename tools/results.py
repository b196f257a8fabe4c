"""Write docs/results.md and its forest plot from results/*.json: python tools/results.py

Every number of the page comes from a run: final accuracy of each seed, mean final and mean best, beside the published
number. :mod:`hypersphere.recipes.evidence` finds the verdicts by one rule for all. What was not run is listed.
"""

from __future__ import annotations

import functools
import json
import math
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypersphere.recipes import Cell, Table, results, tables
from hypersphere.recipes.evidence import VERDICTS, Evidence, baseline, evidence, not_run, results_of

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import other_settings  # noqa: E402
import tuning  # noqa: E402
from forest import Row, svg  # noqa: E402

PAGE = ROOT / "docs" / "results.md"
FOREST = ROOT / "docs" / "images" / "forest.svg"
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
    parts = [f"# Results\n\n{_paragraphs(HEAD)}\n", _summary(), _overview()]
    parts += [_section(table, measurements) for table, measurements in _measured()]
    return "\n".join([*parts, _missing()])


def forest() -> str:
    """The picture of every gain that has an interval."""
    panels = []
    for table, measurements in _measured():
        if table.metric in ("accuracy", "error"):
            rows = [
                Row(one.cell.name, one.gain, *one.interval, one.published_gain)
                for one in _own(table, measurements)
                if one.gain is not None and one.interval is not None and not one.cell.at_start
            ]
            panels += [(f"{table.name} ({table.metric} in %)", rows)] if rows else []
    return svg(panels)


@functools.cache
def _measured() -> list[tuple[Table, list[dict[str, Any]]]]:
    paths = sorted((ROOT / "results").glob("*.json"))
    return [(tables()[path.stem], json.loads(path.read_text())["measurements"]) for path in paths]


def _own(table: Table, measurements: list[dict[str, Any]]) -> list[Evidence]:
    """What the trainings under a table's own name say: one training can stand in several tables."""
    own = {m["cell"] for m in measurements if m["recipe"] == f"{table.name}.{m['cell']}"}
    return [one for one in evidence(table, measurements) if one.cell.training in own]


def _summary() -> str:
    """The methods, a point for each."""
    found = {(table.name, one.cell.name): one for table, measured in _measured() for one in evidence(table, measured)}

    def gain(match: re.Match[str]) -> str:
        table, cell = match[1].split()
        one = found[table, cell]
        return f"{one.gain:+.2f} (published {one.published_gain:+.2f})"

    points = re.sub(r"\{([^}]*)\}", gain, SUMMARY.read_text(encoding="utf-8")).split("\n- ")
    head = """What the runs say of each method. Numbers are differences from our own baseline in points of the accuracy
        or of the error; intervals and verdicts follow below."""
    return "\n".join(
        ["## In short", "", _wrapped(head), "", *(_wrapped(f"- {p.removeprefix('- ')}", "  ") for p in points), ""]
    )


def _overview() -> str:
    """How many published numbers were run, what became of the published gains, and the picture."""
    every = _documents()
    printed = [cell for table in every for cell in table.cells if cell.published is not None]
    found = [one for table, measurements in _measured() if table in every for one in evidence(table, measurements)]
    compared = [one for one in found if one.cell.published is not None]
    numbered = sum(any(cell.published is not None for cell in table.cells) for table in every)
    early = sum(one.cell.at_start for one in compared)
    text = f"""Of {len(printed)} published numbers in {numbered} tables and figures (beside {len(every) - numbered}
        figures that print none), {len(compared)} were run as the recipes say, to the last step ({early} of them are
        known before the first). A training that stands in several tables is shown once here. The end of the page lists
        the tables that were not run."""
    shown = [(table, one) for table, measurements in _measured() for one in _own(table, measurements)]
    counts = Counter(one.verdict for table, one in shown if table in every)
    words = ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])
    alone = Counter(_verdict(one) for table, one in shown if table in every and one.verdict is None)
    text += f""" Published gains: {words}. Baselines: {alone["compatible"]} compatible with the published number,
        {alone["not compatible"]} not. The tables `released.*` have numbers of MHE, CoMHE and OPT again, trained as
        the authors' public code does where it differs from the text; they are not counted here."""
    lines = ["## At a glance", "", _wrapped(text), "", "![Gains over the baseline](images/forest.svg)", ""]
    for table, one in shown:
        if one.verdict is not None:
            lines.append(_wrapped(f"- **{table.name} {one.cell.name}: {one.verdict}.** {_sentence(one)}", "  "))
        elif one.base is None and one.expected is not None:
            word, (low, high) = _verdict(one), one.prediction or (math.nan, math.nan)
            shown_as = f".{_digits(one.cell)}f"
            more = "one more run of ours may give" if one.runs == 1 else f"the mean of {one.runs} more of ours may be"
            text = f"""{one.mean:{shown_as}}, published {one.cell.published:{shown_as}}; {more} {low:{shown_as}} to
                {high:{shown_as}} ({len(one.values)} seeds)."""
            bases = {baseline(table, cell) for cell in table.cells}
            what = "a baseline" if one.cell.name in bases else "no baseline here"
            lines.append(_wrapped(f"- **{table.name} {one.cell.name} ({what}): {word}.** {text}", "  "))
    lines += ["", "One rule gives the verdicts:", ""]
    lines += [_wrapped(f"- *{name}*: {meaning}.", "  ") for name, meaning in VERDICTS.items()]
    return "\n".join([*lines, ""])


def _sentence(one: Evidence) -> str:
    shown = f"+.{_digits(one.cell)}f"
    over = f"our {one.base}, published {one.published_gain:{shown}}"
    seeds = f"{len(one.values)} seed{'s' * (len(one.values) > 1)}"
    if one.gain is None:
        mean = f"{one.mean:.{_digits(one.cell)}f}, published {one.cell.published:.{_digits(one.cell)}f}"
        gain = f"the gain over {one.base}, published {one.published_gain:{shown}}"
        return f"{mean} ({seeds}); {gain}, is not measured, since {one.base} has no whole run."
    if one.interval is None:
        return f"{one.gain:{shown}} over {over} ({seeds})."
    return f"{_gain(one)} over {over} ({seeds})."


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
            values = [m.get("metrics", {}).get(cell.measure, m["final_accuracy"]) for m in seeds]
            shown = ", ".join(f"{table.ours(value, cell.measure):.2f}" for value in values[:_SHOWN])
            shown += f", ... ({len(values)} seeds)" if len(values) > _SHOWN else ""
            published = "" if cell.published is None else f"{cell.published:.2f}"
            best = "" if mine["best"] is None else f"{mine['best']:.2f}"
            one = known.get(cell.name) if mine["whole"] else None
            mean = mine["final"] if one is None else one.mean  # the same rounding as in the overview
            gap = f"{mean - cell.published:+.2f}" if cell.published is not None and mine["whole"] else ""
            spread = tuning.mean([table.ours(value, cell.measure) for value in values]).partition("±")[2]
            final = f"**{mean:.2f}**" + (f" ±{spread}" if spread else "")
            lines.append(
                f"| {cell.name} | {published} | {shown} | {final} | {gap} | {best} | {_gain(one)} | {_verdict(one)} |"
            )
        lines.append("")
        twins = sorted({(m["cell"], m["recipe"]) for m in chosen if m["recipe"] != f"{table.name}.{m['cell']}"})
        if twins:
            text = ", ".join(f"{cell} is {recipe}" for cell, recipe in twins)
            lines += [_wrapped(f"These settings were trained once, under the name of another table: {text}."), ""]
    lines += [*_started(known.values(), measurements), *_tuned(table, measurements), *_variants(table, measurements)]
    finding = FINDINGS / f"{table.name}.md"
    if finding.exists():
        lines += [_paragraphs(finding.read_text(encoding="utf-8").strip()), ""]
    missing = not_run(table, measurements)
    if missing:
        lines += [_wrapped(f"Not run: {len(missing)} of {len(table.cells)} cells ({', '.join(missing)})."), ""]
    return "\n".join(lines)


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
        lines.append(
            f"| {one.cell.name} | {published:.4f} | {seeds} | {mean} | {gap} | {_gain(one)} | {_verdict(one)} |"
        )
    return [f"Before the first step, on {'; '.join(devices)}:", "", *lines, ""]


def _tuned(table: Table, measurements: list[dict[str, Any]]) -> list[str]:
    """What every method reaches with the setting that was best on what was held out, where that was searched."""
    lines: list[str] = []
    validated = [m for m in measurements if m.get("changed", {}).get("data.validate")]
    for steps in sorted({m["steps"] for m in validated}) if table.name in tuning.GRIDS else ():
        rest = tuning.besides(table.name, ROOT / "results", steps)
        given = f", all with `{rest}`" if rest else ""
        seeds = len({m["seed"] for m in validated if m["steps"] == steps})
        count = "one seed" if seeds == 1 else f"{seeds} seeds of their own"
        if table.name.startswith("open."):
            where, also = (
                "every fifth training class, which those runs did without (*held out*), and then trained on all "
                "training classes and tested",
                " *train* is the accuracy on the last training batches, *mean feature* the length of the mean unit "
                "feature of the test images, 1 if all point in one direction, and *collapsed* how many of the settings "
                "ended with a warning or with a mean unit feature of 0.95 or more.",
            )
        else:
            where, also = "the validation nodes (*held out*), and then tested on the test nodes", ""
        text = (
            f"Every method tuned by the same budget, {steps:,} steps a run{given}: settings (nine of each, {count}) "
            f"were chosen by the accuracy on {where} (*test*). *recipe's* is the test of the recipe's own setting in "
            f"as many steps.{also}"
        )
        lines += [_wrapped(text), "", *tuning.table(table.name, ROOT / "results", steps), ""]
    return lines


def _variants(table: Table, measurements: list[dict[str, Any]]) -> list[str]:
    """What cells reach with other settings, where a table's gain was looked for in them."""
    base = other_settings.BASE.get(table.name, "").format(row="ROW", column="COLUMN")
    text = f"""Other settings than the recipe's, and the recipe's own in as many steps beside them. *gain* is over
        `{base}` under the same other settings."""
    rows = other_settings.rows(table, measurements)
    return [_wrapped(text), "", *rows, ""] if rows else []


_SHOWN = 5


def _gain(one: Evidence | None) -> str:
    if one is None or one.gain is None:
        return ""
    shown = f"+.{_digits(one.cell)}f"
    bounds = "" if one.interval is None else f" [{one.interval[0]:{shown}}, {one.interval[1]:{shown}}]"
    return f"{one.gain:{shown}}{bounds}"


def _digits(cell: Cell) -> int:
    return 4 if cell.at_start else 2


def _verdict(one: Evidence | None) -> str:
    """The verdict on a gain, or on a baseline's own number."""
    if one is None or one.verdict is not None:
        return "" if one is None else str(one.verdict)
    if one.base is not None or one.expected is None:
        return ""
    return "compatible" if one.expected else "not compatible"


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
    head = """We have no number for any cell of these tables and figures. `tools/headlines.plan` trains the baselines
        and headlines that are missing, here and in the tables above. The data sets of these can be had:"""
    lines = ["## Not run", "", _wrapped(head), "", *open_, "", "These need data that we do not have:", "", *closed, ""]
    return "\n".join(lines)


def _documents() -> list[Table]:
    """The tables and figures of the documents, without the recipes for one's own data."""
    return [table for table in tables().values() if table.name.startswith(("paper.", "thesis."))]


def _paragraphs(text: str) -> str:
    return "\n\n".join(_wrapped(part) for part in text.split("\n\n"))


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(" ".join(text.split()), 120, break_on_hyphens=False, subsequent_indent=indent)


if __name__ == "__main__":
    for path, content in ((PAGE, page()), (FOREST, forest())):
        path.write_text(content)
        print(path.relative_to(ROOT))
