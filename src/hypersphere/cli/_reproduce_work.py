"""What a command of ``hypersphere reproduce`` trains: what lacks a number, and what others start from, each once."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .._core import torchrun
from ..config import Config
from ..recipes import Cell, Table, results, shared
from ..recipes.shorter import STARTS, named
from ..runs import Run, run_path
from ..runs.files import check_room
from ..train.at_once import places_of
from .settings import check_code


@dataclass(eq=False)
class Work:
    """A training of a table, what its settings change of the cell's, and the folder of its numbers."""

    table: Table
    cell: Cell
    config: Config
    changes: dict[str, Any]
    folder: Path
    twins: list[Work] = field(default_factory=list)
    """Trainings of other tables, or further columns, that would be this one over again."""

    @property
    def name(self) -> str:
        """The training by table and cell."""
        return f"{self.table.name}.{self.cell.training}"

    @property
    def run_name(self) -> str:
        """The folder of its run: that of the cell, or another one for each change of its settings."""
        return run_name_of(self.config, self.changes)

    def lacks(self, seeds: tuple[int, ...]) -> tuple[int, ...]:
        """The seeds that the table's file has no number of."""
        steps, measured = self.config.schedule.steps, results.read(self.table, self.folder)
        done = {results.key(one) for one in measured if results.counts(one, self.config)}
        entry = {"cell": self.cell.training, "steps": steps, "changed": self.changes}
        return tuple(seed for seed in seeds if results.key({**entry, "seed": seed}) not in done)

    def prepare(self, seeds: tuple[int, ...], known: shared.Known) -> bool:
        """Leave out the seeds that are measured under another name, and name the run; False if nothing is left to do.

        Every process leaves out the same ones, and the first writes them down.
        """
        found = shared.same(self.config, seeds, known)
        if found and torchrun.rank() == 0:
            shared.adopt(self.table, self.cell.training, found, self.folder, self.changes)
        missing = tuple(seed for seed in seeds if seed not in found)
        done = [f"seed {seed} as {one['recipe']}" for seed, one in sorted(found.items())]
        if done or not missing:
            print(f"{self.name} is done" + (f": {', '.join(done)}" if done else ""), flush=True)
        if not missing:
            return False
        self.config = replace(self.config, run=replace(self.config.run, seeds=missing, name=self.run_name))
        return True

    @property
    def whole(self) -> Config:
        """The settings with the seeds that this one or a twin lacks."""
        seeds = {seed for work in (self, *self.twins) for seed in work.config.run.seeds}
        return replace(self.config, run=replace(self.config.run, seeds=tuple(sorted(seeds))))

    def record(self, result: dict[str, Any]) -> None:
        """Add the number of a seed, here and where the same training has another name, unless it is there already."""
        for work in (self, *self.twins):
            if result["seed"] in work.config.run.seeds and work.lacks((result["seed"],)):
                results.record(work.table, work.cell.training, work.config, result, work.folder, work.changes)

    def say(self, error: Exception) -> None:
        print(f"hypersphere reproduce: {self.cell.name}: {error}", file=sys.stderr, flush=True)


def with_sources(todo: list[Work], every: Sequence[tuple[Work, int]]) -> list[Work]:
    """Also the seeds that are measured, where others need their runs and these are not here, or not finished.

    A fine-tuning starts from the run of its own seed. An attack is made on the first seed that its source has: where
    the run is not here, that is the first that was asked for.

    Args:
        todo: The trainings that lack a number.
        every: All trainings of the command, each with the first seed that was asked for.

    Returns:
        The same trainings, and those that they need.
    """
    first = {work.run_name: seed for work, seed in reversed(every)}
    needed: dict[str, set[int]] = {}
    for work in todo:
        for setting in STARTS:
            name = named(work.config, setting)
            if name in first:
                seeds = work.config.run.seeds if setting == "model.start" else (first[name],)
                needed.setdefault(name, set()).update(seeds)
    found, grown = list(todo), False
    for work in [work for work, _ in every if work.run_name in needed]:
        asked = {seed for one in found if one.run_name == work.run_name for seed in one.config.run.seeds}
        there = {seed for path in places_of(work.config, work.run_name) for seed in _finished(path)}
        if absent := needed[work.run_name] - asked - there:
            own = work.config.run.seeds if work in found else ()
            work.prepare(tuple(sorted({*own, *absent})), {})
            found = found if work in found else [work, *found]
            grown = True
    return with_sources(found, every) if grown else todo


def _finished(path: Path) -> tuple[int, ...]:
    """The seeds of a run that are trained to the end; none if there is no run, or none that has begun."""
    try:
        return Run(path).finished
    except ValueError:
        return ()


def apart(works: list[Work]) -> list[Work]:
    """The trainings that differ in more than their names, each with its twins: of those, the one that evaluates all.

    One that others start from, or are attacked by, is looked for under its name, and is nobody's twin.
    """
    needed = {run for work in works for run in (work.config.model.start, work.config.adversarial.source)}
    leaders: dict[str, list[Work]] = {}
    for work in sorted(works, key=lambda work: -len(work.config.evaluation.also)):
        config = work.config
        own = config.run.name if config.run.name in needed else None
        same = leaders.setdefault(json.dumps([own, config.data.root, shared.training(config)], sort_keys=True), [])
        first = next((one for one in same if shared.evaluates(one.config, config)), None)
        if first is None:
            same.append(work)
        else:
            first.twins.append(work)
    alone = {work for same in leaders.values() for work in same}
    return [work for work in works if work in alone]


def check(todo: list[Work], at_once: int) -> None:
    """Raise an error for what would fail, or measure something else, when its turn comes, hours later perhaps."""
    folders: dict[Path, set[int]] = {}
    for work in todo:
        folders.setdefault(run_path(work.config).resolve(), set()).update(work.whole.run.seeds)
    for work in todo:
        if at_once > 1 and (times := [one.name for one in (work, *work.twins) if one.cell.is_time]):
            raise ValueError(f"{times[0]} measures time, which others on the device would change: leave out --at-once")
        check_code(work.config)
        place = work.folder.absolute()
        there = next(path for path in (place, *place.parents) if path.exists())
        check_room(there, 2**16, "--results")
        for setting in STARTS:
            name = named(work.config, setting)
            places = set() if name is None else places_of(work.config, name)
            if name is None:
                continue
            if not places & folders.keys() and not any(path.exists() for path in places):
                raise ValueError(f"{work.name}: {setting}={name!r} is no run: train it first, or in the same command")
            seeds = {seed for path in places for seed in (*_finished(path), *folders.get(path, ()))}
            if setting == "model.start" and (absent := sorted(set(work.whole.run.seeds) - seeds)):
                raise ValueError(
                    f"{work.name}: {setting}={name!r} has no trained seed {', '.join(map(str, absent))}, and another "
                    "seed would be another experiment: train it first, or in the same command"
                )


def run_name_of(config: Config, changes: dict[str, Any]) -> str:
    """The folder of a run: that of the cell, or another one for each change of its settings."""
    name = config.run.name or config.recipe
    if changes and name in (config.recipe, f"{config.recipe}-{config.schedule.steps}"):
        name = f"{name}-{zlib.crc32(repr(sorted(changes.items())).encode()):08x}"
    return name
