"""``hypersphere reproduce TABLE``: run its cells, skip what is done, print published | ours | difference."""

from __future__ import annotations

import argparse
import copy
import json
import shlex
import sys
import threading
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NoReturn

from .._core import torchrun
from .._core.checks import check_count, check_positive
from ..config import Config, changed, check_used, overridden, with_values
from ..recipes import Cell, Table, find_table, results, shared, tables
from ..recipes.shorter import STARTS, named, shortened
from ..runs import Run, SeedFolder, beside, run_path
from ..runs.files import check_room
from ..train import Job, Outcome, Stopped, run_at_once
from ..train import run as train
from ..train.at_once import first_ready, many_queues, places_of
from ..train.launch import signals
from ..train.memory import OutOfMemory
from . import arguments
from .parser import Parser
from .settings import check_code, freed


def run(options: argparse.Namespace) -> int:
    """Run ``hypersphere reproduce`` and return its exit status."""
    if check_count("--at-once", options.at_once) > 1:
        many_queues()
    if torchrun.world() > 1 and (options.at_once > 1 or options.within is not None):
        raise ValueError("--at-once and --within need one process: leave them out, or do without torchrun")
    seconds = None if options.within is None else 60 * check_positive("--within", options.within)
    orders = _orders(options)
    runs = {work.run_name for order in orders for work in order.works}
    for order in orders:
        order.start_from(runs)
    first, *others = (work.config for order in orders for work in order.works)
    check_used(first, {name for order in orders for name in order.given}, *others)
    failed = False
    if not options.only_print:
        todo = _apart(_with_sources([work for order in orders for work in order.missing()], orders))
        _check(todo, options.at_once)
        alone = options.at_once == 1 and seconds is None
        failed, stopped = _one_by_one(todo) if alone else _at_once(todo, options.at_once, seconds)
        if stopped:
            return 130
    if torchrun.rank() == 0:
        print("\n\n".join(order.text() for order in orders))
    return 1 if failed else 0


def _orders(options: argparse.Namespace) -> list[_Order]:
    """What is to be run: one table, or a line of a plan each, to which the options of the command are defaults."""
    if (options.table is None) == (options.plan is None):
        raise ValueError("name a table, or a file with --plan: one of them")
    if options.plan is None:
        return [_Order(options)]
    if not options.plan.is_file():
        raise ValueError(f"--plan {options.plan} is not a file: write a table with its options on each line of one")
    orders = []
    for number, line in enumerate(options.plan.read_text(encoding="utf-8").splitlines(), 1):
        parser = _Line(prog="hypersphere reproduce")
        arguments.reproduce(parser)
        try:
            words = shlex.split(line, comments=True)
            if not words:
                continue
            one = parser.parse_args(words, copy.copy(options))
            if any(
                getattr(one, name) != getattr(options, name) for name in ("plan", "at_once", "within", "only_print")
            ):
                raise ValueError("--plan, --at-once, --within and --print belong on the command line")
            orders.append(_Order(one))
        except ValueError as error:
            raise ValueError(f"{options.plan}, line {number}: {error}") from error
    if not orders:
        raise ValueError(f"--plan {options.plan} names no table: write one with its options on each line")
    return orders


class _Line(Parser):
    """Of a line of a plan: a mistake is an exception, not the end."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


class _Order:
    """Cells of one table under the same options."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.table = find_table(options.table)
        self.seeds, self._options = _seeds(options.seeds), options
        self._chosen = [cell for cell in self.table.cells if fnmatch(cell.name, options.cells)]
        if not self._chosen:
            raise ValueError(f"--cells {options.cells!r} matches no cell of {self.table.name}")
        trainings = {cell.training: cell for cell in reversed(self._chosen)}  # cells may share one
        self.given = values = overridden(options)
        if "run.seeds" in values:
            raise ValueError("--run.seeds is for train: give --seeds here")
        if "run.name" in values and len(trainings) > 1:
            raise ValueError(f"--run.name names one run, but {len(trainings)} match: choose one with --cells")
        self.works: list[Work] = []
        for cell in list(trainings.values())[::-1]:
            recipe, config = _settings(self.table, cell, options.steps, values)
            self.works.append(Work(self.table, cell, config, _changes(recipe, config), options.results))

    def start_from(self, runs: Collection[str]) -> None:
        """Name the runs of the same table under the same options as those to start from, where there are such.

        Args:
            runs: those that the command makes.
        """
        for work in self.works:
            work.config = self._starting(work.config, runs)

    def _starting(self, config: Config, runs: Collection[str]) -> Config:
        found = {}
        cells = {f"{self.table.name}.{cell.training}": cell for cell in self.table.cells}
        short = "" if self._options.steps is None else f"-{self._options.steps}"
        values = {name: value for name, value in self.given.items() if name != "run.name"}
        for setting in (one for one in STARTS if one not in values and named(config, one) is not None):
            source = cells.get(str(named(config, setting)).removesuffix(short))
            if source is not None:
                recipe, other = _settings(self.table, source, self._options.steps, values)
                name = _run_name(other, _changes(recipe, other))
                if name in runs or beside(config, name).exists():
                    found[setting] = name
        return with_values(config, found)

    def missing(self) -> list[Work]:
        """The trainings that lack a seed, once it is looked for under the names that other tables have for them."""
        lacking = {work: seeds for work in self.works if (seeds := work.lacks(self.seeds))}
        known = shared.known(self._options.results, tables().values()) if lacking else {}
        recipes = [cell.make() for cell in self.table.cells]
        folders = {named(recipe, setting) for recipe in recipes for setting in STARTS}  # needed, not numbers alone
        return [
            work for work in self.works if work.prepare(lacking.get(work, ()), {} if work.name in folders else known)
        ]

    def text(self) -> str:
        """The table with what is measured now."""
        options, changes = self._options, {work.cell.training: work.changes for work in self.works}
        names = [cell.name for cell in self._chosen]
        steps = self.given.get("schedule.steps", options.steps)
        return results.render(self.table, options.results, names, steps, changes)


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
        return _run_name(self.config, self.changes)

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


def _with_sources(todo: list[Work], orders: list[_Order]) -> list[Work]:
    """Also the seeds that are measured, where others need their runs and these are not here, or not finished.

    A fine-tuning starts from the run of its own seed, an attack is made on the first seed that was asked for.
    """
    first = {work.run_name: order.seeds[0] for order in reversed(orders) for work in order.works}
    needed: dict[str, set[int]] = {}
    for work in todo:
        for setting in STARTS:
            name = named(work.config, setting)
            if name in first:
                seeds = work.config.run.seeds if setting == "model.start" else (first[name],)
                needed.setdefault(name, set()).update(seeds)
    found, grown = list(todo), False
    for work in [work for order in orders for work in order.works if work.run_name in needed]:
        asked = {seed for one in found if one.run_name == work.run_name for seed in one.config.run.seeds}
        there = {seed for path in places_of(work.config, work.run_name) for seed in _finished(path)}
        if absent := needed[work.run_name] - asked - there:
            own = work.config.run.seeds if work in found else ()
            work.prepare(tuple(sorted({*own, *absent})), {})
            found = found if work in found else [work, *found]
            grown = True
    return _with_sources(found, orders) if grown else todo


def _finished(path: Path) -> tuple[int, ...]:
    """The seeds of a run that are trained to the end; none if there is no run, or none that has begun."""
    try:
        return Run(path).finished
    except ValueError:
        return ()


def _apart(works: list[Work]) -> list[Work]:
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


def _check(todo: list[Work], at_once: int) -> None:
    """Raise an error for what would fail, or measure something else, when its turn comes, hours later perhaps."""
    folders: dict[Path, set[int]] = {}
    for work in todo:
        folders.setdefault(run_path(work.config).resolve(), set()).update(work.whole.run.seeds)
    for work in todo:
        if at_once > 1 and (times := [one.name for one in (work, *work.twins) if one.cell.is_time]):
            raise ValueError(f"{times[0]} measures time, which others on the device change: leave out --at-once")
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


def _in_order(todo: list[Work]) -> Iterator[Work]:
    """The trainings as they were asked for, but each after those that it starts from."""
    waiting = {Job(work.whole, work.whole.run.seeds[0]): work for work in todo}
    while waiting:
        yield waiting.pop(first_ready(waiting) or next(iter(waiting)))


def _one_by_one(todo: list[Work]) -> tuple[bool, bool]:
    """Train; whether one has failed, and whether somebody stopped it. Others may do where one fails."""
    failed, stopped = False, threading.Event()
    several = torchrun.world() > 1
    with signals(stopped.set, alone=False):
        for work, seed in [(one, seed) for one in _in_order(todo) for seed in one.whole.run.seeds]:
            config = replace(work.whole, run=replace(work.whole.run, seeds=(seed,)))
            try:
                for result in train(config).get("seeds", ()):
                    work.record(result)
            except Exception as error:  # out of memory, a data set that is missing, ...
                known = isinstance(error, Stopped | ValueError | OSError | ImportError)
                if several and (isinstance(error, OutOfMemory) or not known):
                    raise  # of this process alone: the others would wait for it in this cell
                work.say(error)
                failed = True
                try:
                    if (own := SeedFolder(run_path(config), seed).result) is not None:
                        work.record({"seed": seed, **own})  # the summary of the run may have failed, not this seed
                    elif torchrun.rank() == 0 and (diverged := _diverged(error)) is not None:
                        work.record(diverged)
                except (ValueError, OSError) as unwritten:
                    if str(unwritten) != str(error):
                        work.say(unwritten)
                if isinstance(error, Stopped) and error.code == 130:
                    return True, True
            if stopped.is_set() and not several:  # a signal in the last evaluation, which was finished
                _say_stopped()
                return failed, True
    return failed, False


def _at_once(todo: list[Work], count: int, seconds: float | None) -> tuple[bool, bool]:
    """The same, several at a time, and for so many seconds."""
    owners = {Job(work.whole, seed): work for work in todo for seed in work.whole.run.seeds}
    unwritten = []

    def ended(outcome: Outcome) -> None:
        work = owners[outcome.job]
        result = _diverged(outcome.error) if outcome.result is None else outcome.result
        if result is not None:
            try:
                work.record(result)
            except (OSError, ValueError) as error:  # the others still train; the same command finds this number
                unwritten.append(error)
                work.say(error)
        if outcome.error is not None and not outcome.stopped:
            work.say(outcome.error)

    outcomes = run_at_once(owners, count, ended, seconds)
    stopped = any(one.stopped for one in outcomes)
    if stopped:
        _say_stopped()
    return bool(unwritten) or any(one.error is not None for one in outcomes), stopped


def _diverged(error: Exception | None) -> dict[str, Any] | None:
    """What is recorded of a training that ended because it diverged."""
    return error.result if isinstance(error, Stopped) else None


def _say_stopped() -> None:
    print("hypersphere reproduce: stopped. Give the same command again to continue", file=sys.stderr, flush=True)


def _settings(table: Table, cell: Cell, steps: int | None, values: dict[str, Any]) -> tuple[Config, Config]:
    """The cell's settings in so many steps; and with what the command line changes."""
    recipe = cell.config(table.name)
    if steps is not None and steps != recipe.schedule.steps:
        recipe = shortened(recipe, steps)
    return recipe, with_values(recipe, freed(values, recipe))


def _changes(recipe: Config, config: Config) -> dict[str, Any]:
    """What makes it another experiment: not how it is computed, nor by which network a GAN is scored."""
    found = {name: new for name, (_, new) in changed(recipe, config).items()}
    if config.data.name == "folder":
        found["data.root"] = config.data.root  # the images themselves
    return {name: new for name, new in found.items() if not name.startswith("run.") and name != "evaluation.inception"}


def _run_name(config: Config, changes: dict[str, Any]) -> str:
    """The folder of a run: that of the cell, or another one for each change of its settings."""
    name = config.run.name or config.recipe
    if changes and name in (config.recipe, f"{config.recipe}-{config.schedule.steps}"):
        name = f"{name}-{zlib.crc32(repr(sorted(changes.items())).encode()):08x}"
    return name


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(seed) for seed in text.split(","))
    except ValueError:
        raise ValueError(f"--seeds {text!r} must be numbers with commas, e.g. 0,1,2") from None
