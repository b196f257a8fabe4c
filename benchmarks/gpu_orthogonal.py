"""Orthogonal maps on a GPU: maps cold and warm, OPT steps of CNN-9 beside the plain step, orthogonality at "high".

    python benchmarks/gpu_orthogonal.py [--out FILE] [--quick]

Maps: forward + backward of one matrix, as a CUDA graph, beside the factorization one would call instead. "warm" is
what a training step does: the parameter has moved by ±1e-3 a step as Adam moves it, and R starts from the last one.
Steps: the training program's own captured step over real Adam updates, batches of 128 and 1024.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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
from hypersphere.functional.orthogonalize import WarmCayley, WarmPolar, WarmQR, connect

SIZES = (144, 576, 1152, 2304)
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
    parser.add_argument("--step", help="measure this step alone: METHOD,BATCH")
    options = parser.parse_args()
    kernels.enable(*kernels.FAMILIES)
    if options.step:
        method, _, batch = options.step.partition(",")
        print(json.dumps(one_step(method, int(batch))))
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
    if "steps" in parts:
        for payload["steps"] in steps(options.quick):  # what there is of them
            options.out.write_text(json.dumps(payload, indent=2) + "\n")
    options.out.write_text(json.dumps(payload, indent=2) + "\n")
    print(json.dumps(payload, indent=1))


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


def steps(quick: bool) -> Iterator[dict[str, Any]]:
    """Steps of the training program, each in a process of its own, so that they are compiled side by side.

    The table again whenever it has grown.
    """
    names = [f"{method},{batch}" for batch in (128, 1024) for method in ("plain", *METHODS[:4])]
    if quick:
        names = [
            "plain,128",
            "cayley,128",
            "gram_schmidt,128",
            "householder,128",
            "lowdin,128",
            "plain,1024",
            "cayley,1024",
        ]
    command = [sys.executable, __file__, "--step"]
    first = [name for name in names if name.startswith(("plain", "cayley"))]  # the others find their code compiled
    out: dict[str, Any] = {}
    for wave in (first, [name for name in names if name not in first]):
        processes = {name: subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in wave}
        for name, process in processes.items():
            text, _ = process.communicate()
            row = json.loads(text.splitlines()[-1]) if process.returncode == 0 else {"failed": process.returncode}
            plain = out.get(f"plain,{name.partition(',')[2]}", row)
            if "ms" in row and "ms" in plain:
                row["over_plain"] = round(row["ms"] / plain["ms"], 2)
            out[name] = row
            print(name, row, flush=True)
            yield out


def one_step(method: str, batch: int) -> dict[str, Any]:
    """The training program's captured step, over real Adam updates."""
    config = cnn9("original", batch)
    config = replace(
        config,
        orthogonal=OrthogonalConfig(method=None if method == "plain" else method),
        run=replace(config.run, precision="bfloat16", channels_last=True),
    )
    begin = time.perf_counter()
    with harness.preparing():
        step = program(config, images(20_000), torch.device("cuda"))
        for _ in range(12):
            step()
        step.read()
    out: dict[str, Any] = {"ready_s": round(time.perf_counter() - begin, 1)}
    with harness.alone():
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
        out |= {"ms": round(statistics.median(times), 3), "loss": step.read()["loss"]}
    out["graph"] = step.why_no_graph or "one CUDA graph"
    if method != "plain":
        with torch.no_grad():
            matrices = hs.orthogonal.matrices(step.parts.objective)
            out["defect"] = max(defect(r) for r in matrices.values())
    return out


if __name__ == "__main__":
    main()
