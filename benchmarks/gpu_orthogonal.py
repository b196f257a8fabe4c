"""Orthogonal maps on a GPU: maps cold and warm, OPT steps of CNN-9 beside the plain step, orthogonality at "high".

    python benchmarks/gpu_orthogonal.py [--out FILE] [--quick] [--parts steps,maps,precision] [--kernels]

Maps: forward + backward of one matrix, as a CUDA graph, beside the factorization one would call instead. "warm" is
what a training step does: the parameter has moved by ±1e-3 a step as Adam moves it, and R starts from the last one.
The largest size shows how they grow: d³ where products fill the GPU. Blocks of 64 (PE-OPT) are one call as well.
Steps: the training program's own captured step over real Adam updates, batches of 128 and 1024.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from typing import Any

import torch
from orthogonal_steps import METHODS, WARM, defect, parser_for, start, steps
from torch import Tensor

import harness
import hypersphere as hs
from hypersphere import kernels
from hypersphere.functional.orthogonalize import connect

SIZES = (144, 576, 1152, 2304)
LARGEST = 4608
_BLOCK = 64


def main() -> None:
    parser = parser_for(__doc__, "fewer sizes and methods")
    parser.add_argument("--parts", default="steps,maps,precision", help="which to measure (default %(default)s)")
    options = parser.parse_args()
    kernels.enable(*kernels.FAMILIES)
    device = torch.device("cuda")
    sizes = SIZES[1:3] if options.quick else SIZES
    grown = SIZES[1:] if options.quick else (*SIZES, LARGEST)
    parts = options.parts.split(",")
    payload: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    payload["environment"] = harness.environment("cuda")  # parts that are not measured now stay as they were
    if "maps" in parts or "precision" in parts:
        with harness.preparing():
            maps(64, device)
        with harness.alone():
            if "maps" in parts:
                payload["maps"] = {d: maps(d, device) for d in grown}
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
        out[f"{method} warm, with the move"] = timed(warm_map(method, grad))
    if d % _BLOCK == 0:
        out[f"cayley warm, blocks of {_BLOCK}"] = timed(
            warm_map("cayley", torch.randn(d // _BLOCK, _BLOCK, _BLOCK, device=device))
        )
    u = start(d, "gram_schmidt", device).requires_grad_()
    out["torch.linalg.qr"] = timed(lambda: torch.autograd.grad(torch.linalg.qr(u)[0], u, grad), 5, captured=False)

    def svd() -> object:
        w, _, vt = torch.linalg.svd(u)
        return torch.autograd.grad(w @ vt, u, grad)

    if d < LARGEST:  # it takes seconds there
        out["torch.linalg.svd"] = timed(svd, 2, captured=False)
    identity = torch.eye(d, device=device)

    def solve() -> object:
        lower = u.tril(-1)
        a = lower - lower.mT
        return torch.autograd.grad(torch.linalg.solve(identity - a, identity + a, left=False), u, grad)

    out["torch.linalg.solve"] = timed(solve, 5, captured=False)
    print(d, out, flush=True)
    return out


def warm_map(method: str, grad: Tensor) -> Callable[[], object]:
    """Forward and backward from the last step's result, of parameters (count, d, d) that have moved by ±1e-3."""
    warm = WARM[method]([grad.shape], grad.device)
    u = torch.cat([start(grad.shape[-1], method, grad.device) for _ in grad]).requires_grad_()

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
    for name in (name for name in table[sizes[0]] if all(name in table[d] for d in sizes)):
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


if __name__ == "__main__":
    main()
