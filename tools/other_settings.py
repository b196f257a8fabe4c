"""What cells reach with other settings than the recipe's, beside the plain network under the same settings."""

from __future__ import annotations

import json
import math
import statistics
from typing import Any

import tuning

from hypersphere.recipes import Table

# Tables whose cells were also trained with other settings, and the cell that others gain over under the same settings:
# the same network without margin, energy or orthogonal matrix, or with BatchNorm.
BASE = {
    "open.lfw": "softmax",
    "paper.figure5": "{row}.batch",
    "paper.table1": "{row}.softmax",
    "thesis.figure5.4": "baseline",
    "thesis.table5.1": "baseline.{column}",
    "thesis.table5.2": "baseline.{column}",
    "thesis.table7.3": "baseline.{column}",
    "thesis.table7.4": "baseline.{column}",
}


def rows(table: Table, measurements: list[dict[str, Any]]) -> list[str]:
    """The table in Markdown; empty where no cell was trained with other settings."""
    groups: dict[tuple[int, str, str], list[dict[str, Any]]] = {}
    probed = [one for one in measurements if table.name not in tuning.GRIDS or _probe(one)]
    for one in probed if table.name in BASE else ():
        key = (one["steps"], one["cell"], json.dumps(one.get("changed", {}), sort_keys=True))
        groups.setdefault(key, []).append(one)
    pattern = BASE.get(table.name, "")
    varied = {(steps, _family(pattern, cell)) for steps, cell, changed in groups if changed != "{}"}
    base = {(steps, cell, _besides(changed)): runs for (steps, cell, changed), runs in groups.items()}
    lines = ["| cell | settings | steps | each seed | final | gain |", "| --- | --- | ---: | --- | ---: | --- |"]
    for (steps, cell, changed), runs in sorted(groups.items(), key=lambda item: (-item[0][0], *item[0][1:])):
        if (steps, _family(pattern, cell)) not in varied:
            continue
        other = pattern.format(row=_family("{row}", cell), column=_family("{column}", cell))
        against = base.get((steps, other, _besides(changed)), []) if cell != other else []
        if any(not {"warning", "diverged"}.isdisjoint(one) for one in against):
            against = []  # a gain over one that did not learn says nothing
        values, before = ([table.ours(tuning.final(m), "accuracy") for m in some] for some in (runs, against))
        learned = not any(map(math.isnan, values))
        gain = tuning.gain(values, before) if before and learned else ""
        if gain and min(len(values), len(before)) < 3:  # two seeds have an interval that says nothing
            gain = f"{statistics.fmean(values) - statistics.fmean(before):+.2f}"
        words = f"`{tuning.words(json.loads(changed))}`" if changed != "{}" else "the recipe's"
        each = ", ".join("diverged" if math.isnan(value) else f"{value:.2f}" for value in values)
        row = [cell, words, f"{steps:,}", each, tuning.mean(values)]
        lines.append(f"| {' | '.join([*row, gain])} |")
    return lines if varied else []


def _probe(one: dict[str, Any]) -> bool:
    """Whether a run of an open set is one with another network; the others are those of the search."""
    return "model.norm" in one.get("changed", {})


def _family(pattern: str, cell: str) -> str:
    """What a cell shares with its base: the row or the column of the table."""
    row, _, column = cell.rpartition(".")
    return row if "{row}" in pattern else column


def _besides(changed: str) -> str:
    """What is changed besides margin, energy and the start of R: two trainings with the same are compared."""
    settings = json.loads(changed)
    own = ("loss.", "orthogonal.", "regularizer.hidden", "regularizer.output")
    floored = "floored" in str(settings.get("loss.name")).lower()
    rest = {name: value for name, value in settings.items() if not name.startswith(own)}
    return json.dumps([rest, floored])
