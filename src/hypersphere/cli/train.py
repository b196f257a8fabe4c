"""``hypersphere train RECIPE``: train a recipe, or continue with it."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._core import torchrun
from .._core.trust import trust
from ..config import Config, check_used, overridden, to_dict
from ..runs import run_path
from ..runs.run import continued_in
from ..train import Stopped
from ..train import run as train
from ..train.launch import check_name
from .settings import check_code, chosen_config


def run(options: argparse.Namespace) -> int:
    """Run ``hypersphere train`` and return its exit status."""
    trust(options.trust)
    given = overridden(options)
    config = _in_its_folder(chosen_config(options.recipe, options.config, given), options.config, given)
    check_used(config, given)
    check_name(config)
    if options.show:
        print(json.dumps(to_dict(config), indent=2))
        return 0
    check_code(config)
    try:
        summary = train(config)
    except Stopped as stopped:
        if torchrun.rank() == stopped.speaker:
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


def _in_its_folder(config: Config, file: str | None, given: Mapping[str, Any]) -> Config:
    """A run that was begun goes on in the folder that was named, unless the command line names another one."""
    if file is None or "run.folder" in given or "run.name" in given:
        return config
    path = Path(file).expanduser()
    folder = path if path.is_dir() else path.parent
    if path not in (folder, folder / "config.json") or not any(folder.glob("seed-*")):
        return config
    return continued_in(config, folder, data=not {"data.root", "evaluation.root"} & given.keys())
