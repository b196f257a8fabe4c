"""Orthogonal maps on a GPU: maps cold and warm, OPT steps of CNN-9 beside the plain step, orthogonality at "high".

    python benchmarks/gpu_orthogonal.py [--out FILE] [--quick] [--parts steps,maps,precision] [--kernels]

Maps: forward + backward of one matrix, as a CUDA graph, beside the factorization one would call instead. "warm" is
what a training step does: the parameter has moved by ±1e-3 a step as Adam moves it, and R starts from the last one.
Steps: the training program's own captured step over real Adam updates, batches of 128 and 1024.
"""

from __future__ import annotations

import argparse
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
from hypersphere.functional.orthogonalize import WarmCayley, WarmPolar, WarmQR, connect, rotate_all

SIZES = (144, 576, 1152, 2304)
CNN9 = (27, 576, 576, 576, 864, 864, 864, 1152, 1152, 2048)
WARM: dict[str, Callable[..., Any]] = {
    "cayley": WarmCayley,
    "gram_schmidt": WarmQR,
    "householder": partial(WarmQR, householder=True),
    "lowdin": WarmPolar,
}
METHODS = ("cayley", "gram_schmidt", "householder", "lowdin", "exponential")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=harness.RESULTS / "gpu_orthogonal_cuda.json")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and methods")
    parser.add_argument("--parts", default="steps,maps,precision", help="which to measure (default %(default)s)")
    parser.add_argument("--step", nargs="+", help="measure these steps alone: METHOD,BATCH ...")
    parser.add_argument("--compile", help="only compile the kernels of this map", metavar="METHOD")
    parser.add_argument("--kernels", action="store_true", help="also list the kernels of each step and their times")
    options = parser.parse_args()
    kernels.enable(*kernels.FAMILIES)
    if options.compile:
        with harness.preparing():
            compile_maps(options.compile)
        return
    if options.step:
        some_steps(options.step, options.out, options.kernels)
        return
    device = torch.device("cuda")
    sizes = SIZES[1:3] if options.quick else SIZES
    parts = options.parts.split(",")
    payload: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    payload["environment"] = harness.environment("cuda")  # parts that are not measured now stay as they were
    if "maps" in parts or "precision" in parts:
        with harness.preparing():
            maps(64, device)
        with harness.alone():
            if "maps" in parts:
                payload["maps"] = {d: maps(d, device) for d in sizes}
                payload["growth"] = growth(payload["maps"])
                options.out.write_text(json.dumps(payload, indent=2) + "\n")
            if "precision" in parts:
                payload["precision"] = precision(sizes, device)
    options.out.write_text(json.dumps(payload, indent=2) + "\n")
    if "steps" in parts:
        steps(options.quick, options.out, options.kernels)


def timed(run: Callable[[], object], rounds: int = 15, *, captured: bool = True) -> float:
    """Median milliseconds of ``run``, by replays of a CUDA graph unless it asks the host."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3 if captured else 1):
            run()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    call = run
    if captured:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        call = graph.replay
    times = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return round(statistics.median(times), 3)


def start(d: int, method: str, device: torch.device) -> Tensor:
    """The parameter as attach(init="random") starts it."""
    scale = {"cayley": (2.0 / d) ** 0.5, "exponential": (3.67 / d) ** 0.5}.get(method, 1.0)
    return scale * torch.randn(1, d, d, device=device)


def maps(d: int, device: torch.device) -> dict[str, float]:
    torch.manual_seed(d)
    out: dict[str, float] = {}
    grad = torch.randn(1, d, d, device=device)
    for method in METHODS:
        u = start(d, method, device).requires_grad_()

        def both(u: Tensor = u, method: str = method) -> object:
            return torch.autograd.grad(hs.functional.orthogonalize(u, method), u, grad)

        out[f"{method} cold"] = timed(both, 5, captured=False)
    for method in WARM:
        out[f"{method} warm, with the move"] = timed(warm_map(method, d, grad))
    u = start(d, "gram_schmidt", device).requires_grad_()
    out["torch.linalg.qr"] = timed(lambda: torch.autograd.grad(torch.linalg.qr(u)[0], u, grad), 5, captured=False)

    def svd() -> object:
        w, _, vt = torch.linalg.svd(u)
        return torch.autograd.grad(w @ vt, u, grad)

    out["torch.linalg.svd"] = timed(svd, 2, captured=False)
    identity = torch.eye(d, device=device)

    def solve() -> object:
        lower = u.tril(-1)
        a = lower - lower.mT
        return torch.autograd.grad(torch.linalg.solve(identity - a, identity + a, left=False), u, grad)

    out["torch.linalg.solve"] = timed(solve, 5, captured=False)
    print(d, out, flush=True)
    return out


def warm_map(method: str, d: int, grad: Tensor) -> Callable[[], object]:
    """Forward and backward from the last step's result, of a parameter that has moved by ±1e-3."""
    warm = WARM[method]([torch.Size((1, d, d))], grad.device)
    u = start(d, method, grad.device).requires_grad_()

    def both() -> object:
        with torch.no_grad():
            u.add_(torch.randn_like(u).sign(), alpha=1e-3)
            (found,) = warm([u.detach()])
        solved = (found,) if isinstance(found, Tensor) else found
        return torch.autograd.grad(connect(u, getattr(warm, "kind", "cayley"), solved), u, grad)

    return both


def growth(table: dict[int, dict[str, float]]) -> dict[str, Any]:
    """The powers of d with which each map grows from each size to the next, over the three largest."""
    sizes = sorted(table)[-3:]
    found: dict[str, Any] = {"d": sizes}
    for name in table[sizes[0]]:
        found[name] = harness.exponents(sizes, [table[d][name] for d in sizes])
    print("growth exponents", found)
    return found


def precision(sizes: tuple[int, ...], device: torch.device) -> dict[str, Any]:
    """max|RᵀR − I| of float32 matrices with every setting of the matrix products, cold and after 20 warm steps."""
    out: dict[str, Any] = {}
    for setting in ("highest", "high", "medium"):
        torch.set_float32_matmul_precision(setting)
        for d in sizes:
            errors = {}
            for method in METHODS:
                r = hs.functional.orthogonalize(start(d, method, device), method)
                errors[method] = defect(r)
            for method, make in WARM.items():
                warm, u = make([torch.Size((1, d, d))], device), start(d, method, device)
                for _ in range(20):
                    u.add_(torch.randn_like(u).sign(), alpha=1e-3)
                    (found,) = warm([u])
                r = found if isinstance(found, Tensor) else found[0]
                errors[f"{method}, 20 warm steps"] = defect(r)
                exact = hs.functional.orthogonalize(u.double(), method)
                errors[f"{method} warm against float64"] = float((r.double() - exact).abs().max())
            out[f"{setting} {d}"] = errors
    torch.set_float32_matmul_precision("highest")
    return out


def defect(r: Tensor) -> float:
    r = r.double()
    return float((r.mT @ r - torch.eye(r.shape[-1], device=r.device)).abs().max())


def steps(quick: bool, out: Path, profiled: bool) -> None:
    """Steps of the training program, in a few processes that are prepared side by side.

    Most of the preparation is compiling. The forward passes of all orthogonal steps of a batch size are the same, so
    one process has all of them and compiles once. Meanwhile others compile the kernels of the maps. Rows are written
    one by one.
    """
    few = ("cayley",) if quick else METHODS[:4]
    jobs = [["plain,128"], [f"{m},128" for m in METHODS[:4]], ["plain,1024"], [f"{m},1024" for m in few]]
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
    payload: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    rows = payload.setdefault("steps", {})
    rows[name] = row
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
            prepared.append((name, step, round(time.perf_counter() - begin, 1)))
            print(name, "ready", prepared[-1][2], flush=True)
    with harness.alone() as quiet:
        for name, step, ready in prepared:
            row: dict[str, Any] = {"ms": measured(step), "loss": step.read()["loss"], "ready_s": ready, "quiet": quiet}
            row["graph"] = step.why_no_graph or "CUDA graphs"
            if step._maps is not None:
                row["host_waits_ms"] = waiting(step)
                row["defect"] = max(defect(r) for r, *_ in step._maps.recorded._groups[0]._recorded)
            keep(out, name, row)
    if not profiled and prepared[0][1]._maps is None:
        return
    time.sleep(1.0)  # others measure first
    with harness.alone():
        for name, step, _ in prepared:
            row = json.loads(out.read_text())["steps"][name]
            if profiled:
                row["kernels_us"] = kernel_times(step)
            if step._maps is not None:
                row["jump"] = jump(step)
            keep(out, name, row)


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
    return found


def measured(step: Any) -> float:
    """Median milliseconds of a step, over five times twenty."""
    times = []
    for _ in range(5):
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


if __name__ == "__main__":
    main()
