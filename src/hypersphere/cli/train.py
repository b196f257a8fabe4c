"""``hypersphere train RECIPE``: train a recipe, or go on with it."""

from __future__ import annotations

import argparse
import json
import os
import sys

from .._core.trust import trust
from ..config import Config, overridden, to_dict, with_values
from ..recipes import get
from ..runs import run_path
from ..train import Stopped
from ..train import run as train

__all__ = ["run"]


def run(options: argparse.Namespace) -> int:
    if options.recipe is None:
        raise ValueError("name a recipe (see `hypersphere list recipes`), or `custom` to start from the defaults")
    trust(options.trust)
    base = Config() if options.recipe == "custom" else get(options.recipe)
    config = with_values(base, overridden(options))
    if options.show:
        print(json.dumps(to_dict(config), indent=2))
        return 0
    try:
        summary = train(config)
    except Stopped as stopped:
        if int(os.environ.get("RANK", "0")) == stopped.speaker:
            print(f"hypersphere train: {stopped}", file=sys.stderr)
        return stopped.code
    for result in summary.get("seeds", ()):
        print(
            f"{config.recipe} seed {result['seed']}: final {result['final_accuracy']:.2f}%, "
            f"best {result['best_accuracy']:.2f}% (step {result['best_step']}), "
            f"{result['steps_per_second']:.1f} steps/s"
        )
    if summary:
        print(f"in {run_path(config)}")
    return 0
