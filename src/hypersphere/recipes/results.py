"""Numbers we measured: ``results/TABLE.json``, each with seed, steps, settings, versions and device.

A measurement under other settings than the cell's is kept under what was ``changed``, and is never the cell's number.
A training that diverged is kept too: with the step as ``diverged``, and without a final accuracy.
Settings stand once in a file, under the first digits of their SHA-256, which is what the measurements have of them.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .._core.streams import aligned
from ..config import Config, material
from ..config.command_line import shown
from ..runs.files import json_text, read_json, write_json
from ..runs.lock import locked
from ..runs.manifest import with_nan
from .published import has_diverged, mean, number_of
from .table import Cell, Table


def measured(table: Table) -> Path:
    """The folder of this table's numbers: ``results`` here, else those that came with the package or the clone."""
    here = Path("results")
    package = Path(__file__).parent / "measured"  # a wheel has them here, a clone in its own folder
    clone = Path(__file__).parents[3] / "results"
    places = (here, package, clone)
    return next((place for place in places if (place / f"{table.name}.json").exists()), here)


_NEEDED = {"cell", "steps", "seed"}
_WAIT = 60.0  # seconds for others that write to the folder, which takes them a moment


def read(table: Table, folder: Path) -> list[dict[str, Any]]:
    """Every measurement of a table."""
    path = folder / f"{table.name}.json"
    if not path.exists():
        return []
    content = read_json(path)
    found = content.get("measurements") if isinstance(content, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, dict) and one.keys() >= _NEEDED for one in found):
        raise ValueError(
            f"{path} does not hold measurements, each with {', '.join(sorted(_NEEDED))}: move it away, or name another "
            "folder with --results"
        )
    settings = content.get("settings")
    named = settings if isinstance(settings, dict) else {}
    return [with_nan(_with_settings(one, named, path)) for one in found]


def _with_settings(one: dict[str, Any], settings: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """A measurement with its settings in the place of their name."""
    name = one.get("settings", {})
    found = settings.get(name) if isinstance(name, str) else name
    if not isinstance(found, dict):
        raise ValueError(f"{path} lacks the settings {name!r}: restore the file from its source")
    return {**one, "settings": found} if "settings" in one else one


def record(
    table: Table,
    cell: str,
    config: Config,
    result: dict[str, Any],
    folder: Path,
    changed: Mapping[str, Any] | None = None,
) -> None:
    """Add one seed's result, in place of an earlier one of the same training, seed, number of steps and changes."""
    keep(table, cell, {**result, "settings": material(config)}, folder, changed)


def keep(
    table: Table, cell: str, result: Mapping[str, Any], folder: Path, changed: Mapping[str, Any] | None = None
) -> None:
    """The same of a result with its settings; other processes may add theirs to the folder meanwhile."""
    entry = {**result, "cell": cell, "published": _published(table, cell)}
    if changed:
        entry["changed"] = dict(changed)
    entry["environment"] = {**result.get("environment", {}), "command": command(table, entry)}
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, str(folder), wait=_WAIT):
        kept = [old for old in read(table, folder) if key(old) != key(entry)]
        write(table, [*kept, entry], folder)


def counts(one: Mapping[str, Any], config: Config) -> bool:
    """Whether a measurement is one under these settings: float32 may train where a lower precision diverged."""
    return "diverged" not in one or config.run.precision in (one.get("precision"), "bfloat16")


def write(table: Table, measurements: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """Write the file of a table."""
    settings: dict[str, Any] = {}
    rows = [_named(one, settings) for one in sorted(measurements, key=key)]
    head = {"table": table.name, "title": table.title, "metric": table.metric}
    write_json(folder / f"{table.name}.json", {**head, "measurements": rows, "settings": settings})


def _named(one: Mapping[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """A measurement with a name in the place of its settings, which are added to the others."""
    if not isinstance(one.get("settings"), dict):
        return dict(one)
    name = hashlib.sha256(json_text(one["settings"]).encode()).hexdigest()[:12]
    settings[name] = one["settings"]
    return {**one, "settings": name}


def command(table: Table, entry: Mapping[str, Any]) -> str:
    """What makes this measurement alone, on any machine: the command that was given may name many, and folders."""
    cell = next(one for one in table.cells if one.training == entry["cell"])
    recipe = cell.make()
    words = ["hypersphere", "reproduce", table.name, "--cells", cell.name, "--seeds", str(entry["seed"])]
    own, run = material(recipe)["run"], entry["settings"]["run"]
    precision = {f"run.{name}": value for name, value in run.items() if own.get(name) != value}
    changed = {name: value for name, value in entry.get("changed", {}).items() if "." in name}  # others: in the code
    if entry["steps"] != recipe.schedule.steps and "schedule.steps" not in changed:  # which leaves milestones alone
        words += ["--steps", str(entry["steps"])]
    return shlex.join([*words, *options({**changed, **precision})])


def options(changed: Mapping[str, Any]) -> list[str]:
    """The words of a command line that make these changes."""
    found = []
    for name, value in sorted(changed.items()):
        option, text = f"--{name.replace('_', '-')}", shown(value)
        found += [f"{option}={text}"] if text.startswith("-") else [option, text]
    return found


def ours(
    table: Table,
    cell: Cell,
    measurements: list[dict[str, Any]],
    steps: int | None = None,
    changed: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Mean over seeds of final (and best, of the accuracy), as the table counts; of all steps, or of so many.

    Of the cell's own settings, or of those with just these changed. Where a seed diverged there is no mean: ``final``
    is None then, and ``diverged`` says how many did.
    """
    full = cell.make().schedule.steps
    found = [
        m
        for m in measurements
        if m["cell"] == cell.training
        and (m["steps"] == (steps or full) or (cell.at_start and not steps))
        and _changes(m) == _plain(changed)
    ]
    if cell.at_start:  # trainings of different length give a seed's number twice, and some without energies none
        found = list({m["seed"]: m for m in found if number_of(m, cell.measure) is not None}.values())
    final, seeds = mean(table, cell, found)
    diverged = sum(has_diverged(m, cell.measure) for m in found)
    if final is None and not diverged:
        return None
    counts = cell.measure == "accuracy" and not diverged
    best = [table.ours(m["best_accuracy"], "accuracy") for m in found] if counts else []
    return {
        "final": None if diverged else final,
        "diverged": diverged,
        "best": sum(best) / len(best) if best else None,
        "seeds": seeds + diverged,
        "steps": steps or full,
        "whole": (cell.at_start or (steps or full) == full) and not changed,
    }


def render(
    table: Table,
    folder: Path,
    cells: list[str] | None = None,
    steps: int | None = None,
    changed: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """The table as text: published | ours | difference (final), best beside it.

    ``changed`` settings are by training. Fewer steps or other settings than the cell's make no difference to print.
    """
    measurements = read(table, folder)
    rows = [["cell", "published", "ours", "difference", "best", "seeds"]]
    for cell in table.cells:
        if cells is not None and cell.name not in cells:
            continue
        mine = ours(table, cell, measurements, steps, (changed or {}).get(cell.training))
        digits = f".{_decimals(cell.published)}f"
        published = "-" if cell.published is None else f"{cell.published:{digits}}"
        if mine is None:
            rows.append([cell.name, published, "-", "-", "-", "-"])
            continue
        if mine["diverged"]:
            rows.append([cell.name, published, f"{mine['diverged']} diverged", "-", "-", str(mine["seeds"])])
            continue
        compares = cell.published is not None and mine["whole"]
        gap = f"{mine['final'] - cell.published:+{digits}}" if compares else "-"
        best = "-" if mine["best"] is None else f"{mine['best']:{digits}}"
        rows.append([cell.name, published, f"{mine['final']:{digits}}", gap, best, str(mine["seeds"])])
    unit = f"{table.metric} in %" if table.metric in ("accuracy", "error") else table.metric
    title = f"{table.name}: {table.title}; {unit}" + (f", {steps} steps" if steps else "")
    others = {f"{name}={value}" for changes in (changed or {}).values() for name, value in changes.items()}
    title += f", with {', '.join(sorted(others))}" if others else ""
    return "\n".join([title, *aligned(rows), *([table.note] if table.note else [])])


def _decimals(published: float | None) -> int:
    """As many as are printed, and two at the least."""
    return 2 if published is None else max(2, len(repr(published).partition(".")[2]))


def key(entry: Mapping[str, Any]) -> tuple[str, int, str, int]:
    """What two measurements of a table must differ in."""
    return entry["cell"], entry["steps"], _changes(entry), entry["seed"]


def _changes(entry: Mapping[str, Any]) -> str:
    return _plain(entry.get("changed"))


def _plain(changed: Mapping[str, Any] | None) -> str:
    return json.dumps(dict(changed or {}), sort_keys=True)


def _published(table: Table, training: str) -> dict[str, float | None]:
    """What the table prints for a training, by cell."""
    return {cell.name: cell.published for cell in table.cells if cell.training == training}
