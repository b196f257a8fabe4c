"""``hypersphere reproduce TABLE``: run its cells, skip what is done, print published | ours | difference."""

from __future__ import annotations

import argparse
import copy
import shlex
import sys
import threading
from collections.abc import Collection, Iterator
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any, NoReturn

from .._core import torchrun
from .._core.checks import check_count, check_positive
from ..config import Config, changed, check_used, overridden, with_values
from ..recipes import Cell, Table, find_table, results, shared, tables
from ..recipes.shorter import STARTS, named, shortened
from ..runs import SeedFolder, beside, run_path
from ..train import Job, Outcome, Stopped, run_at_once
from ..train import run as train
from ..train.at_once import first_ready, many_queues
from ..train.launch import signals
from ..train.memory import OutOfMemory
from . import arguments
from ._reproduce_work import Work, apart, check, run_name_of, with_sources
from .parser import Parser
from .settings import freed


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
        every = [(work, order.seeds[0]) for order in orders for work in order.works]
        todo = apart(with_sources([work for order in orders for work in order.missing()], every))
        check(todo, options.at_once)
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
        raise ValueError("give either a table, or a file of tables with --plan")
    if options.plan is None:
        return [_Order(options)]
    if not options.plan.is_file():
        raise ValueError(f"--plan {options.plan} is not a file: write a file with a table and its options on each line")
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
        raise ValueError(f"--plan {options.plan} names no table: write a table with its options on each line")
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
                name = run_name_of(other, _changes(recipe, other))
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


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(seed) for seed in text.split(","))
    except ValueError:
        raise ValueError(f"--seeds {text!r} must be numbers with commas, e.g. 0,1,2") from None
