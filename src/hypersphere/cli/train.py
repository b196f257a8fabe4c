"""``hypersphere train RECIPE``: train a recipe, or continue with it."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from dataclasses import replace
from typing import Any

from .._core.trust import check_trusted, trust
from .._core.trust import named as trusted
from ..config import Config, check_used, overridden, read_values, to_dict, with_values
from ..recipes import get
from ..runs import run_path
from ..train import Stopped
from ..train import run as train


def run(options: argparse.Namespace) -> int:
    """Run ``hypersphere train`` and return its exit status."""
    trust(options.trust)
    given = overridden(options)
    config = chosen_config(options.recipe, options.config, given)
    check_used(config, given)
    if options.show:
        print(json.dumps(to_dict(config), indent=2))
        return 0
    try:
        summary = train(config)
    except Stopped as stopped:
        if int(os.environ.get("RANK", "0")) == stopped.speaker:
            print(f"hypersphere train: {stopped}", file=sys.stderr)
        return stopped.code
    path = run_path(config)
    for result in summary.get("seeds", ()):
        print(
            f"{path.name} seed {result['seed']}: final {result['final_accuracy']:.2f}%, "
            f"best {result['best_accuracy']:.2f}% (step {result['best_step']}), "
            f"{result['steps_per_second']:.1f} steps/s"
        )
        for name, keys in result.get("also", {}).items():
            print(f"  {name}: " + ", ".join(f"{key} {result['metrics'][key]:.2f}" for key in keys))
    if summary:
        place = shlex.quote(str(path))
        print(f"in {place}; `hypersphere report {place}` writes a page about it")
    return 0


def chosen_config(recipe: str | None, file: str | None, values: dict[str, Any]) -> Config:
    """The settings of a recipe, changed by those of a file, changed by those of the command line.

    A file that names its recipe, as that of a run does, needs no other. The recipe of the command line wins. Code that
    the file names by ``module:Name`` must be trusted; that of the command line is.
    """
    trusted(values)  # what this command line names
    found, stored = (None, {}) if file is None else read_values(file)
    check_trusted(stored, file)
    name = recipe or found
    if name is None and file is None:
        raise ValueError("name a recipe (see `hypersphere list recipes`), or `custom` to start from the defaults")
    return with_values(_base(name, strict=recipe is not None or not stored), stored | values)


def _base(name: str | None, strict: bool) -> Config:
    """The recipe's settings; a run's file may name one that no table holds, and then it says everything itself."""
    if name is None or name == "custom":
        return Config()
    try:
        return get(name)
    except ValueError:
        if strict:
            raise
        return replace(Config(), recipe=name)
