"""``hypersphere reproduce TABLE``: run its cells, skip what is done, print published | ours | difference."""

from __future__ import annotations

import argparse
import os
import sys
import zlib
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

from .._core.checks import check_count
from .._core.errors import check_choice
from ..config import Config, changed, overridden, with_values
from ..recipes import Cell, Table, results, tables
from ..train import Job, Outcome, Stopped, run_at_once
from ..train import run as train

__all__ = ["run", "shortened"]


def run(options: argparse.Namespace) -> int:
    """Run ``hypersphere reproduce`` and return its exit status."""
    table = tables()[check_choice("table", options.table, tables())]
    chosen = [cell for cell in table.cells if fnmatch(cell.name, options.cells)]
    if not chosen:
        raise ValueError(f"--cells {options.cells!r} matches no cell of {table.name}")
    trainings = {cell.training: cell for cell in reversed(chosen)}  # cells may share one
    seeds, values = _seeds(options.seeds), overridden(options)
    if "run.seeds" in values:
        raise ValueError("--run.seeds is for train: give --seeds here")
    if "run.name" in values and len(trainings) > 1:
        raise ValueError(f"--run.name names one run, but {len(trainings)} match: choose one with --cells")
    check_count("--at-once", options.at_once)
    works: list[Work] = []
    for cell in list(trainings.values())[::-1]:
        recipe, config = _settings(table, cell, options.steps, values)
        works.append(Work(table, cell, config, _changes(recipe, config), options.results))
    failed = False
    if not options.only_print:
        todo = [work for work in works if work.prepare(seeds)]
        failed, stopped = (_one_by_one if options.at_once == 1 else partial(_at_once, count=options.at_once))(todo)
        if stopped:
            return 130
    if int(os.environ.get("RANK", "0")) == 0:
        changes = {work.cell.training: work.changes for work in works}
        print(results.render(table, options.results, [cell.name for cell in chosen], options.steps, changes))
    return 1 if failed else 0


@dataclass
class Work:
    """A training of a table, what its settings change of the cell's, and the folder of its numbers."""

    table: Table
    cell: Cell
    config: Config
    changes: dict[str, Any]
    folder: Path

    def prepare(self, seeds: tuple[int, ...]) -> bool:
        """Leave out the seeds that are measured, and name the run; False if nothing is left to do."""
        steps, changes, config = self.config.schedule.steps, self.changes, self.config
        wanted = {
            seed: results.key({"cell": self.cell.training, "steps": steps, "seed": seed, "changed": changes})
            for seed in seeds
        }
        done = {results.key(m) for m in results.read(self.table, self.folder)}
        missing = tuple(seed for seed in seeds if wanted[seed] not in done)
        if not missing:
            print(f"{self.table.name}.{self.cell.training} is done", flush=True)
            return False
        name = config.run.name or config.recipe
        if changes and name in (config.recipe, f"{config.recipe}-{steps}"):  # another run than the cell's own
            name = f"{name}-{zlib.crc32(repr(sorted(changes.items())).encode()):08x}"
        self.config = replace(config, run=replace(config.run, seeds=missing, name=name))
        return True

    def record(self, result: dict[str, Any]) -> None:
        """Add the number of a seed."""
        results.record(self.table, self.cell.training, self.config, result, self.folder, self.changes)

    def say(self, error: Exception) -> None:
        print(f"hypersphere reproduce: {self.cell.name}: {error}", file=sys.stderr, flush=True)


def _one_by_one(todo: list[Work]) -> tuple[bool, bool]:
    """Train; whether one has failed, and whether somebody stopped it. Other cells may do where one fails."""
    failed = False
    for work in todo:
        try:
            for result in train(work.config).get("seeds", ()):
                work.record(result)
        except (Stopped, ValueError) as error:
            work.say(error)
            failed = True
            if isinstance(error, Stopped) and error.code == 130:
                return True, True
    return failed, False


def _at_once(todo: list[Work], count: int) -> tuple[bool, bool]:
    """The same, several at a time."""
    owners = {Job(work.config, seed): work for work in todo for seed in work.config.run.seeds}

    def ended(outcome: Outcome) -> None:
        work = owners[outcome.job]
        if outcome.result is not None:
            work.record(outcome.result)
        elif outcome.error is not None:
            work.say(outcome.error)

    outcomes = run_at_once(owners, count, ended)
    stopped = any(isinstance(one.error, Stopped) and one.error.code == 130 for one in outcomes)
    return any(one.error is not None for one in outcomes), stopped


def shortened(config: Config, steps: int) -> Config:
    """The same protocol in fewer steps: milestones and warm-up shrink in proportion, intervals to at most ``steps``.

    So do the runs of the same table that it starts from or is attacked by.
    """
    share = steps / config.schedule.steps
    milestones = sorted({max(1, round(milestone * share)) for milestone in config.schedule.milestones})
    schedule = replace(
        config.schedule,
        steps=steps,
        milestones=tuple(milestones),
        warmup=round(config.schedule.warmup * share),
    )
    run_config = replace(config.run, name=f"{config.recipe}-{steps}")
    for name in ("eval_every", "log_every", "checkpoint_every"):
        run_config = replace(run_config, **{name: max(1, min(getattr(run_config, name), steps))})
    beside = {name: _beside(config, name) for name in ("model.start", "adversarial.source")}
    config = with_values(config, {name: f"{run}-{steps}" for name, run in beside.items() if run is not None})
    return replace(config, schedule=schedule, run=run_config)


def _beside(config: Config, name: str) -> str | None:
    """The run of the same table that a setting names."""
    part, field = name.split(".")
    run = getattr(getattr(config, part), field)
    known = {f"{table.name}.{cell.training}": table for table in tables().values() for cell in table.cells}
    same = run in known and config.recipe.startswith(f"{known[run].name}.")
    return str(run) if same else None


def _settings(table: Table, cell: Cell, steps: int | None, values: dict[str, Any]) -> tuple[Config, Config]:
    """The cell's settings in so many steps; and with what the command line changes."""
    recipe = cell.config(table.name)
    if steps is not None and steps != recipe.schedule.steps:
        recipe = shortened(recipe, steps)
    return recipe, with_values(recipe, values)


def _changes(recipe: Config, config: Config) -> dict[str, Any]:
    """What makes it another experiment: not how it is computed, nor by which network a GAN is scored."""
    found = changed(recipe, config)
    return {
        name: new for name, (_, new) in found.items() if not name.startswith("run.") and name != "evaluation.inception"
    }


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(seed) for seed in text.split(","))
    except ValueError:
        raise ValueError(f"--seeds {text!r} must be numbers with commas, e.g. 0,1,2") from None
