"""``hypersphere reproduce TABLE``: run its cells, skip what is done, print published | ours | difference."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

from .._errors import check_choice
from ..recipes import Cell, Table, results, tables
from ..train import Config, Stopped, with_values
from ..train import run as train
from ..train.options import add_arguments, overridden

__all__ = ["configure", "run", "shortened"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "hypersphere reproduce TABLE [--cells PATTERN] [--seeds 0,1,2] [--steps N] [--GROUP.FIELD VALUE ...]"
    parser.add_argument("table", help="table, see `hypersphere list tables`")
    parser.add_argument("--cells", default="*", metavar="PATTERN", help="only cells that match, e.g. 'sigmoid0.3.*'")
    parser.add_argument("--seeds", default="0", help="seeds, with commas (default %(default)s)")
    parser.add_argument("--steps", type=int, default=None, help="so many steps instead of all; milestones shrink along")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of measured numbers")
    parser.add_argument("--print", dest="only_print", action="store_true", help="print the table and run nothing")
    add_arguments(parser, Config())


def run(options: argparse.Namespace) -> int:
    table = tables()[check_choice("table", options.table, tables())]
    chosen = [cell for cell in table.cells if fnmatch(cell.name, options.cells)]
    if not chosen:
        raise ValueError(f"--cells {options.cells!r} matches no cell of {table.name}")
    seeds = tuple(int(seed) for seed in options.seeds.split(","))
    trainings = {cell.training: cell for cell in reversed(chosen)}  # cells may share one
    for cell in list(trainings.values())[::-1] if not options.only_print else ():
        try:
            _measure(table, cell, seeds, options)
        except Stopped as stopped:
            print(f"hypersphere reproduce: {cell.name}: {stopped}", file=sys.stderr)
            if stopped.code == 130:
                return 130
    if int(os.environ.get("RANK", "0")) == 0:
        print(results.render(table, options.results, [cell.name for cell in chosen], options.steps))
    return 0


def shortened(config: Config, steps: int) -> Config:
    """The same protocol in fewer steps: milestones, warm-up and intervals shrink in proportion."""
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
    return replace(config, schedule=schedule, run=run_config)


def _measure(table: Table, cell: Cell, seeds: tuple[int, ...], options: argparse.Namespace) -> None:
    config = cell.config(table.name)
    if options.steps is not None and options.steps != config.schedule.steps:
        config = shortened(config, options.steps)
    config = with_values(config, overridden(options))
    done = {
        m["seed"]
        for m in results.read(table, options.results)
        if m["cell"] == cell.training and m["steps"] == config.schedule.steps
    }
    missing = tuple(seed for seed in seeds if seed not in done)
    if not missing:
        print(f"{table.name}.{cell.training} is done", flush=True)
        return
    config = replace(config, run=replace(config.run, seeds=missing))
    for result in train(config).get("seeds", ()):
        results.record(table, cell.training, config, result, options.results)
