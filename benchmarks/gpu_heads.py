"""Heads over many classes on a GPU: time, memory and error, beside a plain bfloat16 linear layer with cross-entropy.

    python benchmarks/gpu_heads.py [--out FILE] [--quick] [--only ArcFace] [--parts steps,errors] [--classes 100000 ...]

N = 512, d = 512, forward and backward with gradients for features and class vectors. Times are medians of device
events; "captured" is a CUDA graph of the same step. Memory is the peak beyond weights, features and the gradient of the
weights. Errors are relative, in norm, against float64. Prints rows and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import harness
import hypersphere as hs
from hypersphere import kernels
from hypersphere._core import registries

N, D = 512, 512
GROWTH = (100_000, 300_000, 1_000_000)
CLASSES = (10_575, *GROWTH)
FEW = ("ArcFace", "GA-Softmax sigmoid", "peer: bf16 linear + cross-entropy", "peer: pytorch-metric-learning ArcFace")
SECONDS = 0.3  # for each number
L = hs.losses


class PlainLinear(nn.Module):
    """What a framework gives: a linear layer in bfloat16 with cross-entropy."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, D, device="cuda") * D**-0.5)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(F.linear(x, self.weight), y)


def peer(name: str, classes: int) -> nn.Module | None:
    try:
        from pytorch_metric_learning import losses
    except Exception:  # it is no requirement, and may lack one of its own
        return None
    head: nn.Module = getattr(losses, name)(classes, D).to("cuda")
    return head


def declared(entry: Any, **options: Any) -> Callable[[int], nn.Module | None]:
    return lambda classes: entry.value(D, classes, device="cuda", **options)


HEADS: dict[str, Callable[[int], nn.Module | None]] = {
    **{entry.label: declared(entry) for entry in registries.HEADS.entries() if entry.name != "triplet"},
    "GA-Softmax sigmoid": declared(registries.HEADS.entry("ga_softmax"), margin=2, angular="sigmoid"),
    "GA-Softmax sigmoid, learned k": declared(
        registries.HEADS.entry("ga_softmax"), margin=2, angular=hs.angular.Sigmoid(learnable=True)
    ),
    "SphereFace annealed, smoothed": declared(
        registries.HEADS.entry("a_softmax"), annealing="sphereface", label_smoothing=0.1
    ),
    "ArcFace, class weights": lambda c: L.ArcFace(D, c, class_weight=torch.rand(c), device="cuda"),
    "peer: bf16 linear + cross-entropy": PlainLinear,
    "peer: pytorch-metric-learning ArcFace": lambda c: peer("ArcFaceLoss", c),
}


def step(head: nn.Module, classes: int, half: bool) -> Callable[[], Tensor]:
    generator = torch.Generator("cuda").manual_seed(0)
    x = torch.randn(N, D, generator=generator, device="cuda", requires_grad=True)
    y = torch.randint(0, classes, (N,), generator=generator, device="cuda")

    def run() -> Tensor:
        for p in (x, *head.parameters()):
            p.grad = None
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            loss: Tensor = head(x, y)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    return run


def timed(run: Callable[[], object], most: int = 60) -> dict[str, float]:
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < most and (len(times) < 7 or time.perf_counter() - begin < SECONDS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    times.sort()
    return {"ms": round(statistics.median(times), 4), "low": round(times[0], 4), "rounds": len(times)}


def captured(run: Callable[[], object]) -> dict[str, float]:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    found = timed(graph.replay)
    del graph
    return found


def memory(run: Callable[[], object], head: nn.Module) -> float:
    """MiB beyond the weights' gradient."""
    run()
    torch.cuda.synchronize()
    for p in head.parameters():
        p.grad = None
    base = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    run()
    torch.cuda.synchronize()
    gradient = sum(p.numel() * p.element_size() for p in head.parameters())
    return round((torch.cuda.max_memory_allocated() - base - gradient) / 2**20, 1)


def errors(classes: int, half: bool, trained: bool) -> dict[str, float]:
    """Relative error of value and gradients of ArcFace against float64; ``trained``: features near their class."""
    torch.manual_seed(0)
    head = L.ArcFace(D, classes, device="cuda")
    y = torch.randint(0, classes, (N,), device="cuda")
    x = torch.randn(N, D, device="cuda")
    if trained:
        x = 0.15 * x + head.weight.detach()[y] * 3
    results = []
    for dtype in (torch.float32, torch.float64):
        one = L.ArcFace(D, classes, device="cuda", dtype=dtype, chunk="auto" if dtype == torch.float32 else 4096)
        one.load_state_dict(head.state_dict())
        features = x.detach().to(dtype, copy=True).requires_grad_()
        with torch.autocast("cuda", torch.bfloat16, enabled=half and dtype == torch.float32):
            loss = one(features, y)
        loss.backward()  # type: ignore[no-untyped-call]
        results.append((loss.detach(), features.grad, one.weight.grad))
    names = ("loss", "dx", "dW")
    return {n: float((a.double() - b).norm() / b.norm()) for n, a, b in zip(names, *results, strict=True)}


def follows(classes: int, steps: int) -> dict[str, Any]:
    """A training of synthetic classes, in bfloat16 products and in float32: the losses of the last steps."""
    ends = {}
    for half in (False, True):
        torch.manual_seed(0)
        head = L.ArcFace(D, classes, scale=32.0, margin=0.2, device="cuda")
        mix = torch.randn(64, D, device="cuda", requires_grad=True)
        centers = torch.Generator("cuda").manual_seed(1)
        codes = torch.randn(4096, 64, generator=centers, device="cuda")
        where = torch.randint(0, classes, (4096,), generator=centers, device="cuda")
        optimizer = torch.optim.SGD([mix, *head.parameters()], lr=0.5, momentum=0.9)
        losses = []
        for index in range(steps):
            draw = torch.Generator("cuda").manual_seed(100 + index)
            which = torch.randint(0, 4096, (N,), generator=draw, device="cuda")
            noise = 0.3 * torch.randn(N, 64, generator=draw, device="cuda")
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16, enabled=half):
                loss = head((codes[which] + noise).float() @ mix.float(), where[which])
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
        ends["bfloat16" if half else "float32"] = losses
        del head, optimizer, loss
        torch.cuda.empty_cache()
    gap = max(abs(a - b) / max(abs(b), 1e-3) for a, b in zip(ends["bfloat16"], ends["float32"], strict=True))
    return {
        "classes": classes,
        "steps": steps,
        "largest_relative_gap": gap,
        **{name: [round(v, 5) for v in losses[:: max(1, steps // 10)]] for name, losses in ends.items()},
    }


def stages(classes: int, half: bool, rounds: int = 3) -> dict[str, float]:
    """Where the time of an ArcFace step goes: milliseconds of the GPU by kernel, the longest first."""
    head = L.ArcFace(D, classes, device="cuda")
    run = step(head, classes, half)
    run()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(rounds):
            run()
        torch.cuda.synchronize()
    spent: dict[str, float] = {}
    for event in profile.key_averages():
        name = event.key.split("<")[0].split("(")[0][:60]
        spent[name] = spent.get(name, 0.0) + event.self_device_time_total / rounds / 1000
    ordered = sorted(spent.items(), key=lambda item: -item[1])
    return {name: round(ms, 3) for name, ms in ordered if ms >= 0.005}


def warm(only: Sequence[str], sizes: Sequence[int]) -> None:
    """Compile every kernel that will be measured, those of several heads side by side."""

    def once(name: str, classes: int) -> None:
        head = HEADS[name](classes)
        for half in (True, False):
            if head is not None and (half or classes < 20_000 or name == "ArcFace"):
                step(head, classes, half)()
        torch.cuda.synchronize()

    names = [name for name in only if not name.startswith("peer")]
    with ThreadPoolExecutor(12) as pool:
        begun = [pool.submit(once, name, classes) for classes in sizes for name in names]
        for one in begun:
            one.result()
    torch.cuda.empty_cache()


def growth(steps: dict[str, Any]) -> dict[str, Any]:
    """The powers of C with which ArcFace's step grows over three sizes: time captured, and memory."""
    sizes = list(GROWTH)
    found: dict[str, Any] = {"classes": sizes}
    for kind in ("bf16 autocast", "float32"):
        rows = [steps[f"ArcFace, C={c:,}"][kind] for c in sizes]
        found[f"{kind}, captured ms"] = harness.exponents(sizes, [row["captured"]["ms"] for row in rows])
        found[f"{kind}, MiB"] = harness.exponents(sizes, [row["memory_MiB"] for row in rows])
    return found


def main() -> None:
    global SECONDS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=harness.RESULTS / "gpu_heads_cuda.json")
    parser.add_argument("--quick", action="store_true", help="ArcFace, GA-Softmax and the peers only")
    parser.add_argument("--only", nargs="+", choices=HEADS, help="these heads only")
    parser.add_argument("--parts", default="steps,errors,follows,stages", help="which to measure (default %(default)s)")
    parser.add_argument("--classes", type=int, nargs="+", choices=CLASSES, default=CLASSES, help="of the steps")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each number (default %(default)s)")
    options = parser.parse_args()
    SECONDS = options.seconds
    only = options.only or (FEW if options.quick else tuple(HEADS))
    parts = options.parts.split(",")
    kernels.enable(*kernels.FAMILIES)
    with harness.preparing():
        warm(only, [c for c in options.classes if c <= GROWTH[0]])
    payload: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    payload |= {"environment": harness.environment("cuda"), "sizes": {"N": N, "d": D}}  # other parts stay

    def done(part: str, found: Any) -> None:
        payload[part] = found
        print(part, json.dumps(found, indent=1), flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(payload, indent=2) + "\n")

    with harness.alone():
        if "steps" in parts:
            done("steps", payload.get("steps", {}) | all_steps(only, options.classes))
            if all(f"ArcFace, C={c:,}" in payload["steps"] for c in GROWTH):
                done("growth", growth(payload["steps"]))
        if "errors" in parts:
            done("errors", all_errors())
        if "follows" in parts:
            done("follows", follows(1_000_000, 40))
        if "stages" in parts:
            done("stages", all_stages())


def all_errors() -> dict[str, Any]:
    cases = [(10_575, True, False), (10_575, True, True), (10_575, False, False)]
    cases += [(100_000, True, False), (1_000_000, True, False)]
    return {
        f"C={c}, {'bf16' if half else 'float32'}, {'trained' if trained else 'random'}": errors(c, half, trained)
        for c, half, trained in cases
    }


def all_stages() -> dict[str, Any]:
    return {
        f"{'bf16' if half else 'float32'}, C={classes:,}": stages(classes, half)
        for classes, half in ((1_000_000, True), (1_000_000, False), (10_575, True))
    }


def all_steps(only: Sequence[str], sizes: Sequence[int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for classes in sizes:
        for name in only:
            if classes == GROWTH[1] and name != "ArcFace":
                continue
            head = HEADS[name](classes)
            if head is None:
                continue
            found[f"{name}, C={classes:,}"] = one_head(name, head, classes)
            print(name, f"C={classes:,}", json.dumps(found[f"{name}, C={classes:,}"]), flush=True)
            del head
            torch.cuda.empty_cache()
    return found


def one_head(name: str, head: nn.Module, classes: int) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for half in (True, False):
        if not half and (name.startswith("peer: bf16") or (classes > 20_000 and name != "ArcFace")):
            continue
        run = step(head, classes, half)
        kind = "bf16 autocast" if half else "float32"
        row[kind] = {"eager": timed(run), "memory_MiB": memory(run, head)}
        if name.startswith("peer: pytorch") or (classes == 1_000_000 and name != "ArcFace"):
            continue  # the former copies from the host, which no graph can capture
        row[kind]["captured"] = captured(run)
    return row


if __name__ == "__main__":
    main()
