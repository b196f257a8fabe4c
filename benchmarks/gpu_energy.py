"""Energies on a GPU: N from 1,024 to 100,000 in 512 dimensions beside the compiled N × N version, and MHE on CNN-9.

python benchmarks/gpu_energy.py [--rounds N] [--out FILE] [--parts sizes,errors]

Writes results/gpu_energy_cuda.json: time of value and gradient, memory beyond the inputs, how both grow with N, errors
against float64, and what a regularizer adds to a training step, eager and captured in a CUDA graph.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from energy import cnn9
from harness import RESULTS, alone, environment, exponents, preparing
from hypersphere import kernels
from hypersphere.functional import energy
from hypersphere.regularizers import MHE, SRIP, CoMHE, Orthonormal, Regularizer

DIM = 512
SIZES = (1024, 10_000, 50_000, 100_000, 200_000)
LARGEST = 100_000  # for the peer, whose memory grows as N², and for all forms


def dense(w: Tensor) -> Tensor:
    """What one writes first; compiled, it is the peer."""
    unit = F.normalize(w)
    squares = 2 - 2 * unit @ unit.T
    itself = torch.eye(len(w), dtype=torch.bool, device=w.device)
    return (1 / squares.masked_fill(itself, torch.inf)).sum() / (len(w) * (len(w) - 1))


def timed(run: Callable[[], object], rounds: int) -> float:
    """Median milliseconds by device events, after a warm-up."""
    run()
    run()
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return round(statistics.median(times), 4)


def with_gradient(function: Callable[[Tensor], Tensor], w: Tensor) -> Callable[[], object]:
    def run() -> object:
        return torch.autograd.grad(function(w), w)[0]

    return run


def extra_memory(run: Callable[[], object]) -> float:
    """GiB that the device holds at the peak beyond what it held before."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    kept = run()
    torch.cuda.synchronize()
    del kept
    return round((torch.cuda.max_memory_allocated() - before) / 2**30, 4)


def vectors(count: int, dim: int = DIM, seed: int = 0) -> Tensor:
    generator = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(count, dim, device="cuda", generator=generator).requires_grad_()


FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "full space": energy,
    "half space": lambda w: energy(w, half_space=True),
    "full space, s=0": lambda w: energy(w, 0.0),
    "full space, s=3": lambda w: energy(w, 3.0),
    "angular": lambda w: energy(w, distance="angular"),
}


def sizes(rounds: int, peer: Callable[[Tensor], Tensor], done: Callable[[str, Any], None]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for count in SIZES:
        w = vectors(count)
        forms = FORMS if count == LARGEST else {name: FORMS[name] for name in ("full space", "half space")}
        entry: dict[str, Any] = {}
        for name, function in forms.items():
            run = with_gradient(function, w)
            entry[name] = {"ms": timed(run, rounds), "extra_gib": extra_memory(run)}
        if count <= LARGEST:
            run = with_gradient(peer, w)
            entry["compiled N x N"] = {"ms": timed(run, max(rounds // 2, 2)), "extra_gib": extra_memory(run)}
        entry["half over full space"] = round(entry["half space"]["ms"] / entry["full space"]["ms"], 3)
        table[str(count)] = entry
        done("sizes", table)
        shown = ", ".join(
            f"{name} {row['ms']} ms {row['extra_gib']} GiB" for name, row in entry.items() if isinstance(row, dict)
        )
        print(f"N={count}: {shown}, half over full {entry['half over full space']}", flush=True)
        del w
        torch.cuda.empty_cache()
    return table


def growth(table: dict[str, Any]) -> dict[str, Any]:
    """Exponents of N over the three largest sizes: time should grow as N², memory as N."""
    large = list(SIZES[-3:])
    found: dict[str, Any] = {"N": large}
    for key in ("ms", "extra_gib"):
        found[key] = exponents(large, [table[str(size)]["full space"][key] for size in large])
    print("growth exponents", found)
    return found


def exact(w: Tensor, s: float, half_space: bool, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Value and gradient in float64, in blocks."""
    x = w.detach().double().requires_grad_()
    beta = None if weights is None else weights.double()
    value = energy(x, s, half_space=half_space, weights=beta, block_size=8192)
    return value.detach(), torch.autograd.grad(value, x)[0]


def errors(count: int = 20_000) -> dict[str, Any]:
    """Relative errors of value and gradient, for spread, biased, clustered and nearly equal neurons."""
    spread = vectors(count)
    biased = (vectors(count, seed=1) + 1).detach()
    centres = vectors(200, seed=2).detach()
    clustered = centres[torch.arange(count, device="cuda") % 200] + 0.3 * vectors(count, seed=3).detach()
    close = vectors(count, seed=4).detach()
    for index, gap in enumerate((0.3, 0.1, 0.03, 0.01, 0.003)):
        close[2 * index + 1] = close[2 * index] + gap * close[2 * index + 100]
    weights = torch.rand(count, device="cuda", generator=torch.Generator("cuda").manual_seed(5)) + 0.5
    cases: dict[str, tuple[Tensor, float, bool, Tensor | None]] = {
        "spread": (spread, 2.0, False, None),
        "spread, half space": (spread, 2.0, True, None),
        "spread, s=0": (spread, 0.0, False, None),
        "spread, s=5": (spread, 5.0, False, None),
        "spread, weighted": (spread, 2.0, False, weights),
        "biased": (biased, 2.0, False, None),
        "clustered": (clustered, 2.0, False, None),
        "close pairs": (close, 2.0, False, None),
        "close pairs, half space": (close, 2.0, True, None),
        "64 dimensions": (vectors(count, 64, 6), 2.0, False, None),
    }
    table = {}
    for name, (w, s, half_space, beta) in cases.items():
        w = w.detach().requires_grad_()
        value = energy(w, s, half_space=half_space, weights=beta)
        (gradient,) = torch.autograd.grad(value, w)
        true_value, true_gradient = exact(w, s, half_space, beta)
        table[name] = {
            "value": float((value.detach().double() - true_value).abs() / true_value.abs()),
            "gradient": float((gradient.double() - true_gradient).norm() / true_gradient.norm()),
        }
        print(f"{name}: value {table[name]['value']:.1e}, gradient {table[name]['gradient']:.1e}", flush=True)
    return table


def captured(run: Callable[[], object]) -> Callable[[], object]:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def regularizers_of(model: nn.Module) -> dict[str, Regularizer]:
    return {
        "MHE": MHE(model),
        "half-space MHE": MHE(model, half_space=True),
        "MHE, sample 32": MHE(model, sample=32),
        "RP-CoMHE": CoMHE(model),
        "RP-CoMHE, redrawn every step": CoMHE(model, refresh=1),
        "AP-CoMHE": CoMHE(model, projection="angle_preserving"),
        "adversarial CoMHE": CoMHE(model, projection="adversarial"),
        "group CoMHE": CoMHE(model, projection="group"),
        "bilateral CoMHE": CoMHE(model, projection="bilateral"),
        "Orthonormal": Orthonormal(model),
        "SRIP": SRIP(model),
    }


def regularizers(rounds: int, done: Callable[[str, Any], None]) -> None:
    torch.manual_seed(0)
    model = cnn9().cuda()
    table: dict[str, Any] = {}
    for name, reg in regularizers_of(model).items():

        def run(reg: Regularizer = reg) -> None:
            reg().backward()

        for parameter in model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        eager = timed(run, rounds)
        replay = captured(run)
        before = reg.steps
        table[name] = {"eager_ms": eager, "captured_ms": timed(replay, 5 * rounds), "counted": reg.steps - before}
        done("regularizers", table)
        print(f"{name}: {table[name]}", flush=True)


def warm(peer: Callable[[Tensor], Tensor]) -> None:
    """Compile what will be measured, the kernels in threads."""
    runs: list[Callable[[], object]] = []
    for function in FORMS.values():
        runs.append(with_gradient(function, vectors(20_000)))
    for half in (False, True):
        runs.append(with_gradient(partial(energy, half_space=half), vectors(2048)))
    runs.append(with_gradient(partial(energy, weights=torch.ones(2048, device="cuda")), vectors(2048)))
    with ThreadPoolExecutor(len(runs)) as pool:
        begun = [pool.submit(run) for run in runs]
        for count in (2048, 1024):
            with_gradient(peer, vectors(count))()
        for one in begun:
            one.result()
    torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS / "gpu_energy_cuda.json")
    parser.add_argument("--parts", default="regularizers,errors,sizes")
    options = parser.parse_args()
    parts = options.parts.split(",")
    kernels.enable(*kernels.FAMILIES)
    peer = torch.compile(dense, dynamic=True)
    payload: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    payload |= {"environment": environment("cuda"), "dim": DIM}  # parts that are not measured now stay as they were

    def done(part: str, found: Any) -> None:
        payload[part] = found
        options.out.write_text(json.dumps(payload, indent=2) + "\n")

    with preparing():
        if "sizes" in parts or "errors" in parts:
            warm(peer)
        if "regularizers" in parts:
            for reg in regularizers_of(cnn9().cuda()).values():
                reg().backward()
    with alone():
        if "sizes" in parts:
            sizes(options.rounds, peer, done)
            done("growth", growth(payload["sizes"]))
        if "regularizers" in parts:
            regularizers(4 * options.rounds, done)
        if "errors" in parts:
            done("errors", errors())
    print(options.out)


if __name__ == "__main__":
    main()
