"""What a training of a table costs on a GPU: steps/s of one and of several at once, and what its step consists of.

    python benchmarks/training_costs.py thesis.table7.4.gs.cnn6 ... [--counts 1,6] [--cudnn-search] [--out FILE]

Every training replays its captured step (bfloat16, channels last, not compiled) on a stream of its own, as
``hypersphere reproduce --at-once K --run.compile off`` does, on random images of the size of its data set.
``steps_per_second`` is the rate of all of them together, by their number. ``--cudnn-search`` lets cuDNN try its
algorithms before the capture instead of guessing one. The file keeps what was measured of other trainings.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from gpu_at_once import One, images, inside, rate

import hypersphere.data as data
from harness import RESULTS, environment
from hypersphere import recipes
from hypersphere.train import Config
from hypersphere.train.training import TURN

SHAPES: dict[str, tuple[int, tuple[int, int, int]]] = {
    "cifar10": (10, (3, 32, 32)),
    "cifar100": (100, (3, 32, 32)),
    "mnist": (10, (1, 28, 28)),
}


def settings(name: str) -> Config:
    config = recipes.get(name)
    run = replace(config.run, precision="bfloat16", channels_last=True, compile="off", graph="on")
    return replace(config, run=run)


def measured(turns: list[Callable[[int], None]], seconds: float) -> float:
    """Steps a second of all together, over about so many seconds."""
    rate(turns, 2 * TURN)
    guess = rate(turns, 2 * TURN)
    return rate(turns, max(int(seconds * guess / len(turns)), 2 * TURN))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="+", help="trainings, see `hypersphere list recipes`")
    parser.add_argument("--counts", default="1,6", help="trainings at once (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement (default %(default)s)")
    parser.add_argument("--cudnn-search", action="store_true", help="let cuDNN try its algorithms")
    parser.add_argument("--no-profile", action="store_true", help="rates alone")
    parser.add_argument("--out", type=Path, default=RESULTS / "training_costs.json")
    options = parser.parse_args()
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = "32"  # which CUDA reads when it starts
    torch.backends.cudnn.benchmark = options.cudnn_search
    counts = [int(count) for count in options.counts.split(",")]
    before = json.loads(options.out.read_text()) if options.out.exists() else {"trainings": {}}
    found: dict[str, Any] = {"environment": environment("cuda"), "trainings": before["trainings"]}
    sets: dict[str, data.Dataset] = {}
    first: dict[str, One] = {}
    for name in options.recipes:
        start = time.perf_counter()
        try:
            config = settings(name)
            kind = config.data.name
            everyone = sets.get(kind) or sets.setdefault(kind, images(50_000, *SHAPES[kind]))
            works = [One(config, seed, everyone) for seed in range(max(counts))]
            row: dict[str, Any] = {"seconds_to_build": round(time.perf_counter() - start, 2), "steps_per_second": {}}
            for count in counts:
                turns = [work.turn for work in works[:count]]
                row["steps_per_second"][count] = round(measured(turns, options.seconds), 1)
        except Exception as error:  # one that fails leaves the others their numbers
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            continue
        row["cudnn_search"] = options.cudnn_search
        key = f"{name} (cudnn search)" if options.cudnn_search else name
        found["trainings"][key], first[key] = row, works[0]
        print(f"{key}: {row}", flush=True)
        options.out.write_text(json.dumps(found, indent=2) + "\n")
    for key, work in first.items():  # last: where a profiler has been, streams take turns
        if options.no_profile:
            break
        found["trainings"][key]["step"] = step = inside(work)
        print(key, {name: value for name, value in step.items() if name != "by_name"}, flush=True)
        for name, (count, spent) in list(step["by_name"].items())[:14]:
            print(f"    {spent:8.1f} us {count:6.1f} {name[:100]}", flush=True)
        options.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
