"""The training program against a bare loop, and its steps per second.

CPU: what a step of the program costs over a bare PyTorch loop of the same model, batches and optimizer.
CUDA: the paper's CNN-9 protocol (Adam, batch 128, 32×32 images of random bytes) as the program trains it by default:
float32 with TF32, one CUDA graph. Each network in a process of its own, which begins with empty caches of the
compilers: seconds to the first step and to the captured one, then steps per second.

    python benchmarks/training.py [--rounds N] [--device cpu|cuda]
"""

from __future__ import annotations

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

import torch
from torch import nn

import hypersphere.data as data
from harness import arguments, interleave, show, write
from hypersphere import recipes
from hypersphere.runs import Team
from hypersphere.sources import Resident
from hypersphere.train import Config
from hypersphere.train.build import make_parts
from hypersphere.train.step import Step


def images(count: int) -> data.Dataset:
    """Random bytes in the shape of CIFAR-10."""
    generator = torch.Generator().manual_seed(0)
    classes = tuple(map(str, range(10)))
    splits = [
        data.Split(
            torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=generator),
            torch.randint(0, 10, (n,), generator=generator),
            classes,
        )
        for n in (count, 500)
    ]
    return data.Dataset("random", *splits)


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


def on_cuda(rounds: int, operators: tuple[str, ...] = ("original", "sigmoid0.3")) -> dict[str, Any]:
    """What :func:`one_on_cuda` measures of each network, in processes of their own."""
    results: dict[str, Any] = {}
    for operator in operators:
        with tempfile.TemporaryDirectory() as cold:
            caches = {"TRITON_CACHE_DIR": f"{cold}/triton", "TORCHINDUCTOR_CACHE_DIR": f"{cold}/inductor"}
            command = [sys.executable, __file__, "--one", operator, "--rounds", str(rounds)]
            done = subprocess.run(command, env=os.environ | caches, stdout=subprocess.PIPE, text=True, check=True)
        results[operator] = json.loads(done.stdout.splitlines()[-1])
        print(operator, results[operator], flush=True)
    plain = results["original"]["steps_per_second"]
    for row in results.values():
        row["time_ratio"] = round(plain / row["steps_per_second"], 4)
    return results


def one_on_cuda(operator: str, rounds: int) -> dict[str, Any]:
    """Seconds to the first steps, and steps/s over ``rounds`` stretches of 500."""
    step = program(cnn9(operator), images(50_000), torch.device("cuda"))
    torch.backends.cudnn.benchmark = True  # as the program does
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True
    torch.cuda.synchronize()
    begin, ready = time.perf_counter(), []
    while not step.settled:
        step()
        step.read()
        ready.append(round(time.perf_counter() - begin, 2))
    rates = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        times(step, 500)
        step.read()
        rates.append(500 / (time.perf_counter() - begin))
    rates.sort()
    return {
        "steps_per_second": round(rates[len(rates) // 2], 1),
        "range": [round(rates[0], 1), round(rates[-1], 1)],
        "seconds_to_first_step": ready[0],
        "seconds_to_captured_step": ready[-1],
        "compiled": step._compiled,
        "graph": step.why_no_graph or "one CUDA graph",
    }


if __name__ == "__main__":
    if "--one" in sys.argv:
        place = sys.argv.index("--one")
        print(json.dumps(one_on_cuda(sys.argv[place + 1], int(sys.argv[place + 3]))))
        sys.exit()
    options = arguments(__doc__ or "", rounds=15)
    payload = on_cuda(options.rounds) if options.device == "cuda" else on_cpu(options.rounds)
    print(write(options.name or "training", {"results": payload}, options.device))
