"""OPT steps of CNN-9 on a GPU beside the plain step: the training program's own captured steps, over real Adam updates.

    python benchmarks/orthogonal_steps.py [--out FILE] [--quick] [--kernels]

A jump of the parameters is part of it: the host finds out later that a matrix failed, and does the step again.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from training import cnn9, images, program

import harness
import hypersphere as hs
from hypersphere import kernels
from hypersphere.config import OrthogonalConfig
from hypersphere.functional.orthogonalize import WarmCayley, WarmPolar, WarmQR, methods, rotate_all

CNN9 = (27, 576, 576, 576, 864, 864, 864, 1152, 1152, 2048)
WARM: dict[str, Callable[..., Any]] = {
    "cayley": WarmCayley,
    "gram_schmidt": WarmQR,
    "householder": partial(WarmQR, householder=True),
    "lowdin": WarmPolar,
}
METHODS = ("cayley", *(name for name in methods() if name != "cayley"))


def parser_for(description: str | None, quick: str) -> argparse.ArgumentParser:
    """The options of the benchmarks of orthogonal maps, which share a file of results; ``quick`` is a help text."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=harness.RESULTS / "gpu_orthogonal_cuda.json")
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--kernels", action="store_true", help="also list the kernels of each step and their times")
    return parser


def main() -> None:
    parser = parser_for(__doc__, "of batches of 1024 only Cayley")
    parser.add_argument("--step", nargs="+", help="measure these steps in this process: METHOD,BATCH ...")
    parser.add_argument("--compile", help="only compile the kernels of this map", metavar="METHOD")
    options = parser.parse_args()
    kernels.enable(*kernels.FAMILIES)
    if options.compile:
        with harness.preparing():
            compile_maps(options.compile)
    elif options.step:
        some_steps(options.step, options.out, options.kernels)
    else:
        steps(options.quick, options.out, options.kernels)


def steps(quick: bool, out: Path, profiled: bool) -> None:
    """Steps of the training program, in a few processes that are prepared side by side.

    Most of the preparation is compiling: 40 seconds for the first step of a process, 3 to 10 for another one of the
    same batch size, because their forward passes are the same. Meanwhile others compile the kernels of the maps.
    Each row is written as soon as its step is ready, and again when nothing else runs.
    """
    few = ("cayley",) if quick else METHODS[:3]
    jobs = [["plain,128"], [f"{m},128" for m in METHODS[:3]], ["lowdin,128"], ["plain,1024"]]
    jobs += [[f"{m},1024" for m in few], *[["lowdin,1024"]] * (not quick)]
    command = [sys.executable, __file__, "--out", str(out), *["--kernels"] * profiled]
    environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "3"}
    processes = [subprocess.Popen([*command, "--step", *names], env=environment) for names in jobs]
    processes += [
        subprocess.Popen([*command, "--compile", method], env=environment) for method in ("householder", "lowdin")
    ]
    failed = [process.args for process in processes if process.wait() != 0]
    print(f"failed: {failed}" if failed else "all steps measured", flush=True)


def keep(out: Path, name: str, row: dict[str, Any]) -> None:
    """Write the row of a step, and its ratio to the plain step."""
    with out.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the processes write one after the other
        payload: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
        rows = payload.setdefault("steps", {})
        rows[name] = rows.get(name, {}) | row
        for other, found in rows.items():
            plain = rows.get(f"plain,{other.partition(',')[2]}", {})
            if "ms" in plain and "ms" in found:
                found["over_plain"] = round(found["ms"] / plain["ms"], 2)
        out.write_text(json.dumps(payload, indent=2) + "\n")
    print(name, row, flush=True)


def compile_maps(method: str) -> None:
    """Compile the kernels of a warm map of CNN-9's matrices, and of its gradient."""
    device = torch.device("cuda")
    shapes = [torch.Size((1, d, d)) for d in CNN9]
    warm = WARM[method](shapes, device)
    us = [start(d, method, device).requires_grad_() for d in CNN9]
    vs = [torch.randn(1, 64, d, device=device) for d in CNN9]
    for _ in range(2):
        with torch.no_grad():
            solved = warm([u.detach() for u in us])
    turned = rotate_all(vs, us, warm.kind, solved)
    torch.autograd.grad([w.sum() for w in turned], us)
    torch.cuda.synchronize()


def some_steps(names: list[str], out: Path, profiled: bool) -> None:
    """The training program's captured steps METHOD,BATCH, over real Adam updates."""
    begin, prepared, dataset = time.perf_counter(), [], images(20_000)
    with harness.preparing():
        for name in names:
            method, _, batch = name.partition(",")
            config = cnn9("original", int(batch))
            config = replace(
                config,
                orthogonal=OrthogonalConfig(method=None if method == "plain" else method),
                run=replace(config.run, precision="bfloat16", channels_last=True),
            )
            step = program(config, dataset, torch.device("cuda"))
            for _ in range(12):
                step()
            step.read()
            prepared.append((name, step))
            keep(out, name, {"ready_s": round(time.perf_counter() - begin, 1), "ms": measured(step, 2), "quiet": False})
    with harness.alone() as quiet:
        for name, step in prepared:
            row: dict[str, Any] = {"ms": measured(step), "loss": step.read()["loss"], "quiet": quiet}
            row["graph"] = step.why_no_graph or "CUDA graphs"
            if step._maps is not None:
                row["host_waits_ms"] = waiting(step)
                row["defect"] = max(defect(r) for r, *_ in step._maps.recorded._groups[0]._recorded)
            keep(out, name, row)
    time.sleep(1.0)  # others measure first
    with harness.alone():
        for name, step in prepared:
            if step._maps is not None:
                keep(out, name, {"jump": jump(step)})
            if profiled:
                keep(out, name, {"kernels_us": kernel_times(step)})


def jump(step: Any) -> dict[str, Any]:
    """What becomes of parameters that jump too far for the maps: the host finds out later, and does the step again."""
    torch.manual_seed(1)
    start, parameters = step.step, hs.orthogonal.rotation_parameters(step.parts.objective)
    before = [raw.detach().clone() for raw in parameters]
    size = 1e5 if step._maps.recorded._groups[0].kind == "warm cayley" else 1.0
    with torch.no_grad():
        for raw in parameters:
            raw.copy_(size * torch.randn_like(raw))
    for _ in range(5):
        step()
    found: dict[str, Any] = {"loss": step.read()["loss"], "done_again": step._maps._watched > 0}
    found["steps"] = int(step._counter) - start
    found["defect"] = max(defect(r) for r, *_ in step._maps.recorded._groups[0]._recorded)
    with torch.no_grad():
        torch._foreach_copy_(parameters, before)
    while step._maps._watched:
        step()
    return found


def measured(step: Any, rounds: int = 5) -> float:
    """Median milliseconds of a step, over so many times twenty."""
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        for _ in range(20):
            step()
        last.record()
        torch.cuda.synchronize()
        times.append(first.elapsed_time(last) / 20)
    return round(statistics.median(times), 3)


def waiting(step: Any) -> float:
    """The same, if the host waits in each step to know whether a matrix failed."""
    step._maps._watched = 10**6
    found = measured(step)
    step._maps._watched = 0
    return found


def kernel_times(step: Any, count: int = 5) -> dict[str, float]:
    """Microseconds a step of the kernels that take most, and of all."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(count):
            step()
        torch.cuda.synchronize()
    table = sorted(profile.key_averages(), key=lambda e: -e.self_device_time_total)
    times = {f"{e.key[:60]} x{e.count / count:g}": round(e.self_device_time_total / count, 1) for e in table[:30]}
    return {"all": round(sum(e.self_device_time_total for e in table) / count, 1), **times}


def start(d: int, method: str, device: torch.device) -> Tensor:
    """The parameter as attach(init="random") starts it."""
    scale = {"cayley": (2.0 / d) ** 0.5, "exponential": (3.67 / d) ** 0.5}.get(method, 1.0)
    return scale * torch.randn(1, d, d, device=device)


def defect(r: Tensor) -> float:
    r = r.double()
    return float((r.mT @ r - torch.eye(r.shape[-1], device=r.device)).abs().max())


if __name__ == "__main__":
    main()
