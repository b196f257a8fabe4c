"""The training program against a bare loop, and its steps per second.

CPU: what a step of the program costs over a bare PyTorch loop of the same model, batches and optimizer.
CUDA: the program itself with the paper's CNN-9 protocol (Adam, batch 128, 32×32 images, here of random bytes) and
its defaults: float32 with TF32, one CUDA graph. Each network is trained in a process of its own; with --cold it begins
with empty caches of the compilers.

    python benchmarks/training.py [--rounds N]
    python benchmarks/training.py --device cuda [--steps N] [--cold]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import nn

import hypersphere.data as data
from harness import interleave, show, write
from hypersphere import recipes
from hypersphere.runs import Team
from hypersphere.sources import Resident
from hypersphere.train import Config, run, with_values
from hypersphere.train.build import make_parts
from hypersphere.train.step import Step


def images(count: int, test: int = 500) -> data.Dataset:
    """Random bytes in the shape of CIFAR-10."""
    generator = torch.Generator().manual_seed(0)
    classes = tuple(map(str, range(10)))
    splits = [
        data.Split(
            torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=generator),
            torch.randint(0, 10, (n,), generator=generator),
            classes,
        )
        for n in (count, test)
    ]
    return data.Dataset("cifar10", *splits)


def program(config: Config, dataset: data.Dataset, device: torch.device) -> Step:
    source = Resident(dataset, config.data, 0, device, 0, 1, config.run.channels_last)
    return Step(make_parts(config, 0, Team(0, 1, device), source))


def bare(config: Config, dataset: data.Dataset) -> Any:
    """The loop that one would write by hand: batch, forward, loss, backward, Adam."""
    parts = make_parts(
        config, 0, Team(0, 1, torch.device("cpu")), Resident(dataset, config.data, 0, torch.device("cpu"), 0, 1, False)
    )
    loader, model = parts.source.loader, parts.objective.model  # type: ignore[attr-defined]
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.Adam([{"params": decayed, "weight_decay": 5e-4}, {"params": others}], lr=1e-3)
    loss_function, count = nn.CrossEntropyLoss(), 0

    def step() -> None:
        nonlocal count
        inputs, labels = loader.batch(count % len(loader))
        optimizer.zero_grad()
        loss = loss_function(model(inputs), labels)
        loss.backward()
        optimizer.step()
        count += 1

    return step


def on_cpu(rounds: int) -> dict[str, Any]:
    results = {}
    small = replace(recipes.get("digits.cnn"), schedule=replace(recipes.get("digits.cnn").schedule, steps=10**5))
    cases = {
        "CNN-3 on digits, batch 64": (small, data.load("digits")),
        "CNN-9, CIFAR shape, batch 16": (cnn9("original", 16), images(2000)),
    }
    for name, (config, dataset) in cases.items():
        config = replace(config, run=replace(config.run, log_every=10**9))
        ours, loop = program(config, dataset, torch.device("cpu")), bare(config, dataset)
        repeat = 20 if "digits" in name else 2
        variants = {"bare loop": partial(times, loop, repeat), "program": partial(times, ours, repeat)}
        results[name] = interleave(variants, rounds, "bare loop")
        show(name, results[name])
    return results


def times(step: Callable[[], None], count: int) -> None:
    for _ in range(count):
        step()


def cnn9(operator: str, batch: int = 128) -> Config:
    config = recipes.get(f"paper.table1.{operator}.softmax")
    return replace(config, data=replace(config.data, batch_size=batch))


def on_cuda(operators: list[str], steps: int, cold: bool) -> dict[str, Any]:
    """What :func:`one_on_cuda` measures of each network, in processes of their own."""
    results: dict[str, Any] = {}
    for operator in operators:
        with tempfile.TemporaryDirectory() as empty:
            caches = {"TRITON_CACHE_DIR": f"{empty}/triton", "TORCHINDUCTOR_CACHE_DIR": f"{empty}/inductor"}
            command = [sys.executable, __file__, "--one", operator, "--steps", str(steps)]
            done = subprocess.run(
                command, env=os.environ | (caches if cold else {}), stdout=subprocess.PIPE, text=True, check=True
            )
        results[operator] = {"cold": cold} | json.loads(done.stdout.splitlines()[-1])
        print(operator, results[operator], flush=True)
    return results


def one_on_cuda(operator: str, steps: int) -> dict[str, Any]:
    """Seconds of the steps up to the captured one and of all of them, and steps per second."""
    seconds: list[float] = []
    genuine = Step.__call__

    def timed(self: Step) -> None:
        begin = 0.0 if self.settled else time.perf_counter()
        genuine(self)
        if begin:
            torch.cuda.synchronize()
            seconds.append(round(time.perf_counter() - begin, 3))

    dataset = images(50_000, 10_000)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(data, "load", return_value=dataset),
        mock.patch.object(Step, "__call__", timed),
    ):
        short = {"schedule.steps": steps, "schedule.milestones": (), "run.folder": folder, "run.tensorboard": False}
        result = run(with_values(cnn9(operator), {**short, "run.device": "cuda", "run.progress": "off"}))["seeds"][0]
    return {
        "steps": steps,
        "seconds": result["seconds"],
        "steps_per_second": result["steps_per_second"],
        "seconds_of_first_step": seconds[0],
        "seconds_to_captured_step": round(sum(seconds), 3),
    }


def main() -> None:
    if "--one" in sys.argv:
        print(json.dumps(one_on_cuda(sys.argv[2], int(sys.argv[4]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--name", default="training")
    parser.add_argument("--operators", nargs="+", default=["original", "sigmoid0.3"], help="rows of paper.table1")
    parser.add_argument("--steps", type=int, default=64_000, help="steps on a GPU")
    parser.add_argument("--cold", action="store_true", help="with empty caches of the compilers")
    options = parser.parse_args()
    if options.device == "cpu":
        print(write(options.name, {"results": on_cpu(options.rounds)}))
        return
    print(write(options.name, {"results": on_cuda(options.operators, options.steps, options.cold)}, "cuda"))


if __name__ == "__main__":
    main()
