"""Cost of the operators on a GPU against the same network with plain layers.

CNN-9 (64/96/128) on 32×32: whole training steps with fused Adam. Captured means one CUDA graph; the plain network is
also compiled before, the operators' is not. Then evaluation, no BatchNorm, other g and h, float32 with TF32 in NCHW,
and converted networks at 224², first all captured and none compiled, then all compiled as well.

    python benchmarks/gpu_operators.py --warm     fills the caches of the compilers, in parallel
    python benchmarks/gpu_operators.py            measures and writes results/gpu_operators_cuda.json
    python benchmarks/gpu_operators.py --table    prints what that file holds as the tables of docs/operators.md
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.pool import ThreadPool
from typing import Any

import gpu_networks
import torch
import torch.nn.functional as F
from torch import nn

import harness
import hypersphere as hs
from hypersphere._core.registries import ANGULAR, MAGNITUDES

GS = ("cosine", "linear", "sigmoid")


def sphere(angular: Any) -> Any:
    return partial(hs.nn.SphereConv2d, angular=angular)


def decoupled(magnitude: str, angular: Any) -> Any:
    return partial(hs.nn.DecoupledConv2d, magnitude=magnitude, angular=angular)


OTHERS = {
    "square_cosine": sphere("square_cosine"),
    "sigmoid, learnable k": sphere(hs.angular.Sigmoid(learnable=True)),
    "cosine × tanh": decoupled("tanh", "cosine"),
    "sigmoid × tanh": decoupled("tanh", "sigmoid"),
    "linear × log": decoupled("log", "linear"),
}


def cnn9(op: Any = None, norm: bool = True) -> nn.Module:
    model = gpu_networks.cnn9(op, norm)
    return model if op is None else hs.nn.fuse(model)


def step(
    model: nn.Module,
    batch: int,
    *,
    size: int = 32,
    compiled: bool = False,
    captured: bool = True,
    training: bool = True,
    dtype: torch.dtype = torch.bfloat16,
    last: bool = True,
) -> tuple[Callable[[], object], float]:
    """A step to run and time, and the MiB that it needs at most."""
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    model = model.cuda().train(training)
    x = torch.randn(batch, 3, size, size, device="cuda")
    if last:
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    y = torch.randint(0, 10, (batch,), device="cuda")
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, fused=True, capturable=True)

    def forward(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            return F.cross_entropy(model(x), y)

    run_forward = torch.compile(forward) if compiled else forward

    def train() -> None:
        optimizer.zero_grad(set_to_none=True)
        run_forward(x, y).backward()
        optimizer.step()

    def evaluate() -> None:
        with torch.no_grad():
            run_forward(x, y)

    run = train if training else evaluate
    with torch.cuda.stream(SIDE):
        SIDE.wait_stream(torch.cuda.default_stream())
        torch.backends.cudnn.benchmark = False
        run()  # compiles
        if WARMING:
            return run, 0.0
        with harness.turn():
            torch.backends.cudnn.benchmark = True
            for _ in range(3):
                run()
            torch.cuda.synchronize()
    torch.cuda.current_stream().wait_stream(SIDE)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    if not captured:
        run()
        torch.cuda.synchronize()
        return run, (torch.cuda.max_memory_allocated() - before) / 2**20
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, POOL, SIDE):
        run()

    def replay(kept: Any = (model, optimizer, x, y)) -> None:  # the graph reads their memory
        graph.replay()

    return replay, (torch.cuda.max_memory_allocated() - before) / 2**20


def groups(images: int = 128) -> dict[str, dict[str, Callable[[], tuple[Callable[[], object], float]]]]:
    """Name → variants, the reference first; ``images`` is the batch of the converted networks."""
    table: dict[str, dict[str, Any]] = {}
    for batch in (1024, 128):
        at = f"batch {batch}"
        table[f"captured, {at}"] = {"Conv2d": lambda b=batch: step(cnn9(), b, compiled=True)} | {
            g: lambda g=g, b=batch: step(cnn9(sphere(g)), b) for g in GS
        }
        table[f"eager, {at}"] = {"Conv2d": lambda b=batch: step(cnn9(), b, captured=False)} | {
            g: lambda g=g, b=batch: step(cnn9(sphere(g)), b, captured=False) for g in GS
        }
    table["captured, batch 1024"] |= {name: lambda op=op: step(cnn9(op), 1024) for name, op in OTHERS.items()}
    table["every g × h, captured, batch 1024"] = {"Conv2d": lambda: step(cnn9(), 1024, compiled=True)} | {
        f"{g} × {h}": lambda g=g, h=h: step(cnn9(decoupled(h, g)), 1024) for g in ANGULAR for h in MAGNITUDES
    }
    table["captured, batch 1024"]["sigmoid, compiled"] = lambda: step(cnn9(sphere("sigmoid")), 1024, compiled=True)
    table["evaluation, captured, batch 1024"] = {
        "Conv2d": lambda: step(cnn9(), 1024, compiled=True, training=False)
    } | {g: lambda g=g: step(cnn9(sphere(g)), 1024, training=False) for g in GS}
    table["no BatchNorm, captured, batch 1024"] = {"Conv2d": lambda: step(cnn9(None, False), 1024, compiled=True)} | {
        g: lambda g=g: step(cnn9(sphere(g), False), 1024) for g in ("cosine", "sigmoid")
    }
    wide = {"dtype": torch.float32, "last": False}
    table["float32 with TF32, NCHW, captured, batch 1024"] = {
        "Conv2d": lambda: step(cnn9(), 1024, compiled=True, **wide)
    } | {g: lambda g=g: step(cnn9(sphere(g)), 1024, **wide) for g in GS}
    for name in gpu_networks.NETWORKS:
        table[f"{name}, 224², captured, batch 128"] = {
            g or "plain": lambda n=name, g=g: step(gpu_networks.make(n, g), images, size=224)
            for g in (None, "cosine", "sigmoid")
        }
    for name in gpu_networks.NETWORKS:  # after all others: compiling these takes longest
        table[f"{name}, 224², compiled and captured, batch 128"] = {
            g or "plain": lambda n=name, g=g: step(gpu_networks.make(n, g), 128, size=224, compiled=True)
            for g in (None, "cosine", "sigmoid")
        }
    return table


def measure(variants: dict[str, Any], rounds: int) -> dict[str, Any]:
    global POOL
    POOL = torch.cuda.graph_pool_handle()  # of the graphs of a group, which run one by one; it ends with them
    built = {}
    errors = {}
    with harness.preparing():
        for name, make in variants.items():
            try:
                built[name] = make()
            except Exception as error:  # what cannot run is said in the file, beside what can
                errors[name] = repr(error)[:300]
                print(f"  {name}: {errors[name]}", flush=True)
    reference = next(iter(variants))
    if reference not in built:
        return {"errors": errors}
    runs = {name: run for name, (run, _) in built.items()}
    with harness.alone():
        summary = harness.interleave(runs, rounds, reference, "cuda")
    base = built[reference][1]
    for name, (_, mebibytes) in built.items():
        summary["variants"][name]["peak_mib"] = round(mebibytes, 1)
        summary["variants"][name]["memory_ratio"] = round(mebibytes / base, 3)
    return summary | ({"errors": errors} if errors else {})


def show_tables(groups: dict[str, Any]) -> None:
    """The ratios as rows of Markdown, all groups in the order of the file."""
    for name, group in groups.items():
        rows = group.get("variants", {})
        reference = group.get("reference")
        if reference is None:
            continue
        others = [
            f"{variant} {row['ratio']:.3f}×" for variant, row in rows.items() if variant not in (reference, "A/A")
        ]
        low, high = rows["A/A"]["ratio_quartiles"]
        print(f"| {name} | {rows[reference]['median_ms']:.2f} ms | {', '.join(others)} | {low:.3f} to {high:.3f} |")
        memory = [
            f"{v} {row['memory_ratio']:.2f}×" for v, row in rows.items() if v != reference and "memory_ratio" in row
        ]
        print(f"| its peak memory | {rows[reference]['peak_mib']:,.0f} MiB | {', '.join(memory)} | |")


def main() -> None:
    global SIDE, WARMING
    parser = argparse.ArgumentParser(description="Cost of the operators on a GPU")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--warm", action="store_true", help="only fill the compilers' caches, in parallel")
    parser.add_argument("--only", nargs="*", help="parts of the names of groups")
    parser.add_argument("--skip", nargs="*", default=[], help="parts of the names of groups to leave as they are")
    parser.add_argument("--table", action="store_true", help="print what was measured last, as rows of Markdown")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--name", default="gpu_operators")
    options = parser.parse_args()
    if options.table:
        show_tables(json.loads((harness.RESULTS / f"{options.name}_cuda.json").read_text())["groups"])
        return
    table = {
        k: v
        for k, v in groups(16 if options.one else 128).items()
        if (not options.only or any(part in k for part in options.only)) and not any(part in k for part in options.skip)
    }
    if options.warm:
        same = {g.replace("captured", "eager", 1) for g in table if g.startswith("captured")}  # as their kernels are
        wanted = [f"{g}|{name}" for g, variants in table.items() if g not in same for name in variants]
        wanted.sort(key=lambda one: "compiled" not in one)
        threads = max(2, (os.cpu_count() or 1) // max(1, min(16, len(wanted))))
        env = {"TORCHINDUCTOR_COMPILE_THREADS": str(threads)} | dict(os.environ)
        with ThreadPool(16) as pool:
            pool.map(lambda one: subprocess.run([sys.executable, __file__, "--one", one], check=False, env=env), wanted)
        return
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    WARMING = bool(options.one)
    SIDE = torch.cuda.Stream()
    if options.one:
        group, name = options.one.split("|")
        table[group][name]()
        return
    import triton

    before = harness.RESULTS / f"{options.name}_cuda.json"
    some = bool(options.only or options.skip) and before.exists()
    kept = json.loads(before.read_text())["groups"] if some else {}
    results = {name: group | {"of_an_earlier_run": True} for name, group in kept.items()}
    for name, variants in table.items():
        begin = time.time()
        torch._dynamo.reset()
        results[name] = measure(variants, options.rounds)
        if "variants" in results[name]:
            harness.show(name, results[name])
            for variant, row in results[name]["variants"].items():
                if "memory_ratio" in row:
                    print(f"    {variant}: {row['peak_mib']} MiB, {row['memory_ratio']}")
        print(f"  ({time.time() - begin:.0f} s)", flush=True)
        harness.write(options.name, {"triton": triton.__version__, "groups": results}, "cuda")


if __name__ == "__main__":
    main()
