"""Many trainings on one GPU: steps/s of K captured CNN-9s that share it, and of one batched network for K seeds.

    python benchmarks/gpu_at_once.py [--counts 1,2,4,8] [--queues 32] [--steps N] [--conv sigmoid0.3|...] [--out FILE]

Every training replays its captured step (batch 128, bfloat16, channels last, weight projection every 100 steps) on a
stream of its own, one turn after the other, as ``hypersphere reproduce --at-once K`` does. ``alone`` compares the
weights of a training among others with those of the same training alone, and of the same training alone once more.
``--queues`` is how many CUDA opens to the GPU: 32, as the program asks for, or 8, its own default. The file keeps what
was measured with other numbers of them.

``step`` is what one captured step consists of. ``program`` is the same by :func:`hypersphere.train.run_at_once`: runs
with logs and checkpoints in their folders, and no evaluation before the last step; the rates of all are added.

The batched network (``batched.py``) holds the filters of K seeds as the groups of grouped convolutions, so its step is
K steps of one network. It is timed without the data loader: forward, loss, backward, Adam, as one captured step.
``agreement`` trains it for 32 steps beside the same networks alone, in bfloat16 as it is timed and in float32, and says
how far losses and weights are apart, beside what the last bit of the weights changes and how far apart the seeds are.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from batched import Batched, Steps, agreement, patterns
from torch import Tensor, nn

import hypersphere.data as data
from harness import RESULTS, environment
from hypersphere import recipes
from hypersphere.runs import Facts, Team, make_networks
from hypersphere.sources import Resident
from hypersphere.train import Config, Job, run_at_once, with_values
from hypersphere.train.build import make_parts
from hypersphere.train.step import Step
from hypersphere.train.surroundings import Surroundings
from hypersphere.train.training import TURN

DEVICE = torch.device("cuda", 0)


class One:
    """A training in surroundings of its own."""

    def __init__(self, config: Config, seed: int, images: data.Dataset) -> None:
        self.surroundings = Surroundings(DEVICE, torch.cuda.Stream(DEVICE))
        with self.surroundings.inside():
            source = Resident(images, config.data, seed, DEVICE, 0, 1, config.run.channels_last)
            self.step = Step(make_parts(config, seed, Team(0, 1, DEVICE), source))
            while not self.step.settled:
                self.step()
        torch.cuda.synchronize()

    def turn(self, steps: int = TURN) -> None:
        with self.surroundings.inside():
            for _ in range(steps):
                self.step()

    def weights(self) -> Tensor:
        torch.cuda.synchronize()
        return torch.cat([p.detach().flatten() for p in self.step.parts.objective.parameters()])


def images(count: int, classes: int = 10, shape: tuple[int, int, int] = (3, 32, 32)) -> data.Dataset:
    """Random bytes in the shape of a data set, by default CIFAR-10's."""
    draw = torch.Generator().manual_seed(0)
    split = data.Split(
        torch.randint(0, 256, (count, *shape), dtype=torch.uint8, generator=draw),
        torch.randint(0, classes, (count,), generator=draw),
        tuple(map(str, range(classes))),
    )
    return data.Dataset("random", split, split)


def settings(conv: str) -> Config:
    config = recipes.get(f"paper.table1.{conv}.softmax")
    return replace(config, run=replace(config.run, precision="bfloat16", channels_last=True))


def rate(turns: list[Callable[[int], None]], steps: int, each: int = TURN) -> float:
    """Steps a second of all together, ``each`` steps of one before those of the next are asked for."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(steps // each):
        for turn in turns:
            turn(each)
    torch.cuda.synchronize()
    return len(turns) * (steps // each) * each / (time.perf_counter() - begin)


def program(config: Config, everyone: data.Dataset, count: int, steps: int) -> float:
    """Steps a second of ``count`` seeds trained by the program, all together."""
    values = {
        "schedule.steps": steps,
        "schedule.milestones": (),
        "run.seeds": tuple(range(count)),
        "run.progress": "off",
        "run.tensorboard": False,
        "run.eval_every": steps,
        "run.checkpoint_every": steps,
    }
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(data, "load", return_value=everyone):
        whole = with_values(config, values | {"run.folder": folder})
        outcomes = run_at_once([Job(whole, seed) for seed in whole.run.seeds], count)
    for outcome in outcomes:
        if outcome.error is not None:  # also where a time limit stopped them: no number rather than a wrong one
            raise outcome.error
    return sum(outcome.result["steps_per_second"] for outcome in outcomes if outcome.result is not None)


def inside(work: One, steps: int = 8) -> dict[str, Any]:
    """What a captured step consists of: kernels, their time alone, and what the host takes to ask for it."""
    work.turn(TURN)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    work.turn(steps)
    host = time.perf_counter() - begin
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        work.turn(steps)
        torch.cuda.synchronize()
    spent = {event.key: (event.count / steps, event.device_time_total / steps) for event in profile.key_averages()}
    order = sorted(spent.items(), key=lambda item: -item[1][1])
    return {
        "kernels": round(sum(count for count, _ in spent.values()), 1),
        "microseconds": round(sum(time for _, time in spent.values()), 1),
        "host_microseconds": round(host / steps * 1e6, 1),
        "by_name": {name[:110]: [round(count, 2), round(spent, 2)] for name, (count, spent) in order},
    }


def networks(config: Config, count: int) -> list[nn.Module]:
    """The networks with which the first seeds of a cell begin."""
    made = []
    for seed in range(count):
        torch.manual_seed(seed)
        made.append(make_networks(config, Facts(10, in_channels=3, image_size=(32, 32))).model)
    return [network.to(DEVICE, memory_format=torch.channels_last) for network in made]


def grouped(config: Config, count: int) -> Callable[[], object]:
    """One captured step of the batched network of ``count`` seeds, always on the same random batch."""
    model = Batched(networks(config, count)).to(DEVICE, memory_format=torch.channels_last)
    x = torch.randn(128, count * 3, 32, 32, device=DEVICE).to(memory_format=torch.channels_last)
    steps = Steps(model, x, torch.randint(0, 10, (count, 128), device=DEVICE), bfloat16=True, captured=True)
    for _ in range(3):
        steps.again()
    return steps.again


def _replays(replay: Callable[[], object], steps: int) -> None:
    for _ in range(steps):
        replay()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default="1,2,4,8", help="trainings at once (default %(default)s)")
    parser.add_argument("--steps", type=int, default=640, help="steps of each (default %(default)s)")
    parser.add_argument("--conv", default="sigmoid0.3", help="row of paper.table1 (default %(default)s)")
    parser.add_argument("--batched", default="1,4", help="groups of the batched network; empty: none")
    parser.add_argument("--program", default="", help="trainings at once by the program; empty: none")
    parser.add_argument("--queues", default="32", help="to the GPU (default %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_at_once.json")
    options = parser.parse_args()
    counts = [int(count) for count in options.counts.split(",")]
    os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = options.queues  # which CUDA reads when it starts
    config, everyone = settings(options.conv), images(50_000)
    before = json.loads(options.out.read_text()) if options.out.exists() else {}
    found: dict[str, Any] = {"environment": environment("cuda"), "conv": options.conv, "batch": 128, "at_once": {}}

    def keep() -> None:
        options.out.write_text(json.dumps({**before, f"{options.queues} queues": found}, indent=2) + "\n")

    begin = time.perf_counter()
    works: list[One] = []
    building = []
    for seed in range(max(counts)):
        start = time.perf_counter()
        works.append(One(config, seed, everyone))
        building.append(round(time.perf_counter() - start, 2))
    found["seconds_to_build"] = building
    print(f"built {len(works)} in {time.perf_counter() - begin:.1f} s: {building}", flush=True)
    for _ in range(4):
        for work in works:
            work.turn()
    among = works[0].weights().clone()
    alone = []
    for _ in range(2):
        one = One(config, 0, everyone)
        one.turn(4 * TURN)
        alone.append(one.weights().clone())
    found["alone"] = {
        "steps": works[0].step.step,
        "among_others_equals_alone": bool(torch.equal(among, alone[0])),
        "alone_equals_alone": bool(torch.equal(*alone)),
        "largest_difference_among": float((among - alone[0]).abs().max()),
        "largest_difference_alone": float((alone[1] - alone[0]).abs().max()),
    }
    print(found["alone"], flush=True)
    keep()
    for count in counts:
        turns = [work.turn for work in works[:count]]
        rate(turns, 2 * TURN)
        rates = [rate(turns, options.steps) for _ in range(3)]
        found["at_once"][count] = {"steps_per_second": round(sorted(rates)[1], 1), "each": [round(r, 1) for r in rates]}
        print(f"{count} at once: {sorted(rates)[1]:.0f} steps/s together", flush=True)
        keep()
    everybody = [work.turn for work in works]
    found["steps_of_a_turn"] = {each: round(rate(everybody, options.steps, each), 1) for each in (1, 4, 16, 64)}
    print(f"{len(works)} at once by the steps of a turn: {found['steps_of_a_turn']}", flush=True)
    found["program"] = {}
    for count in [int(one) for one in options.program.split(",") if one]:
        found["program"][count] = round(program(config, everyone, count, 4 * options.steps), 1)
        print(f"{count} at once by the program: {found['program'][count]:.0f} steps/s together", flush=True)
        keep()
    found["step"] = inside(works[0])  # last: where a profiler has been, streams take turns
    print({name: value for name, value in found["step"].items() if name != "by_name"}, flush=True)
    keep()
    works.clear()
    found["batched"] = {}
    for count in [int(one) for one in options.batched.split(",") if one]:
        torch.compiler.reset()
        turn = partial(_replays, grouped(config, count))
        rates = [rate([turn], options.steps) for _ in range(3)]
        found["batched"][count] = {"steps_per_second": round(count * sorted(rates)[1], 1)}
        print(f"{count} batched: {count * sorted(rates)[1]:.0f} steps/s together", flush=True)
        torch.compiler.reset()
        seeds = networks(config, count)
        found["batched"][count]["agreement"] = {
            "bfloat16": agreement(seeds, patterns(count, 128, 32, (3, 32, 32)), bfloat16=True, captured=True),
            "float32": agreement(seeds, patterns(count, 128, 32, (3, 32, 32))),
        }
        print(f"batched and alone differ by {found['batched'][count]['agreement']}", flush=True)
        keep()
    print(f"{time.perf_counter() - begin:.0f} s in all")


if __name__ == "__main__":
    main()
