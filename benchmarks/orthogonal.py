"""Orthogonalization forward + backward against torch's own routes, batched blocks, accuracy and drift.

    python benchmarks/orthogonal.py [--rounds N] [--device cpu|cuda]

Every peer computes the same kind of matrix from such a parameter, and is given a gradient. At d = 144, where the
factorization takes a millisecond, eight matrices are done in turn, as a network has several layers; "alone" is one
matrix between calls of the peer, so that Python's part is cold.
The last part takes 100,000 steps of OrthogonalSGD in float32 and reports the worst max|RᵀR − I|.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import harness
import hypersphere as hs
from hypersphere.functional.orthogonalize import algorithms as exact
from hypersphere.functional.orthogonalize import iterations as iterative
from hypersphere.functional.orthogonalize import methods

DIMS = (144, 576, 1152)
LAYERS = 8
STEPS = 100_000


def main() -> None:
    options = harness.arguments(__doc__ or "", rounds=150)
    device = options.device
    torch.manual_seed(0)
    payload: dict[str, Any] = {"speed": {}, "accuracy": {}}
    for d in DIMS:
        rounds = max(5, options.rounds * 144**2 // d**2) if device == "cpu" else options.rounds
        payload["speed"][d] = {}
        for method, (peer, run_peer) in peers(d, device).items():
            if method == "exponential" and device == "cpu" and d > 576:
                continue  # seconds a run, and nothing is claimed of it
            variants = {peer: run_peer, "hypersphere": ours(d, method, device)}
            if device == "cuda":
                variants |= alternatives(d, method, device)
            summary = harness.interleave(variants, rounds, peer, device, warmup=1)
            alone = d == DIMS[0] and device == "cpu"
            payload["speed"][d][f"{method}, alone" if alone else method] = summary
            harness.show(f"{method}{', alone' * alone}, d = {d}, forward + backward", summary)
            if alone:
                several = {
                    peer: in_turn([peers(d, device)[method][1] for _ in range(LAYERS)]),
                    "hypersphere": in_turn([ours(d, method, device) for _ in range(LAYERS)]),
                }
                summary = harness.interleave(several, max(5, rounds // 3), peer, device, warmup=1)
                payload["speed"][d][method] = summary
                harness.show(f"{method}, {LAYERS} matrices in turn, d = {d}, forward + backward", summary)
        payload["accuracy"][d] = accuracy(d, device)
        print("max|RᵀR − I|:", payload["accuracy"][d])
    payload["blocks"] = blocks(max(5, options.rounds // 5), device)
    payload["reads"] = reads(max(5, options.rounds // 5), device)
    if device == "cpu":
        payload["drift"] = [drift(**settings) for settings in ({}, {"solver": "fixed_point", "momentum": 0.9})]
    print("written to", harness.write(options.name or "orthogonal", payload, device))


def in_turn(runs: list[Callable[[], object]]) -> Callable[[], object]:
    return lambda: [run() for run in runs]


def ours(d: int, method: str, device: str) -> Callable[[], object]:
    u, grad = raw(d, method, device), torch.randn(d, d, device=device)
    return lambda: torch.autograd.grad(hs.functional.orthogonalize(u, method), u, grad)


def peers(d: int, device: str) -> dict[str, tuple[str, Callable[[], object]]]:
    u, grad = torch.randn(d, d, device=device, requires_grad=True), torch.randn(d, d, device=device)

    def qr() -> object:
        return torch.autograd.grad(torch.linalg.qr(u)[0], u, grad)

    def svd() -> object:
        w, _, vt = torch.linalg.svd(u)
        return torch.autograd.grad(w @ vt, u, grad)

    def parametrized(orthogonal_map: str, method: str) -> Callable[[], object]:
        linear = nn.Linear(d, d, bias=False, device=device)
        nn.utils.parametrizations.orthogonal(linear, "weight", orthogonal_map, use_trivialization=False)
        original = linear.parametrizations.weight.original
        if orthogonal_map != "householder":
            with torch.no_grad():
                original.copy_(raw(d, method, device))
        return lambda: torch.autograd.grad(linear.weight, original, grad)

    return {
        "gram_schmidt": ("torch.linalg.qr", qr),
        "lowdin": ("torch.linalg.svd", svd),
        "householder": ("parametrizations.orthogonal householder", parametrized("householder", "householder")),
        "cayley": ("parametrizations.orthogonal cayley", parametrized("cayley", "cayley")),
        "exponential": ("parametrizations.orthogonal matrix_exp", parametrized("matrix_exp", "exponential")),
    }


def alternatives(d: int, method: str, device: str) -> dict[str, Callable[[], object]]:
    """The same method by the algorithm that a GPU does not take by default, or takes instead of this one."""
    u, grad = raw(d, method, device).detach(), torch.randn(d, d, device=device)
    table: dict[str, dict[str, tuple[Callable[..., Any], Callable[..., Tensor]]]] = {
        "gram_schmidt": {
            "geqrf": (exact.gram_schmidt, exact.qr_backward),
            "CholeskyQR2, float64": (iterative.cholesky_qr, exact.qr_backward),
        },
        "lowdin": {
            "SVD, closed-form backward": (exact.lowdin, exact.lowdin_backward),
            "polynomials, float64": (iterative.polynomial_polar, iterative.polynomial_polar_backward),
        },
    }
    return {
        name: lambda forward=forward, backward=backward: backward(grad, *forward(u))
        for name, (forward, backward) in table.get(method, {}).items()
    }


def raw(d: int, method: str, device: str) -> Tensor:
    """The parameter as attach(init="random") starts it."""
    scale = {"cayley": (2.0 / d) ** 0.5, "exponential": (3.67 / d) ** 0.5}.get(method, 1.0)
    return (scale * torch.randn(d, d, device=device)).requires_grad_()


def accuracy(d: int, device: str) -> dict[str, float]:
    """max|RᵀR − I| in float32, from the default and from the literal N(0, 1) start; Löwdin against float64."""
    out = {}
    for method in methods():
        for start, u in (("", raw(d, method, device)), (" literal", torch.randn(d, d, device=device))):
            r = hs.functional.orthogonalize(u.detach(), method).double()
            out[method + start] = float((r.mT @ r - torch.eye(d, device=device)).abs().max())
    u = torch.randn(d, d, device=device)
    w, _, vt = torch.linalg.svd(u.double())
    out["lowdin to float64 polar factor"] = float((hs.functional.orthogonalize(u, "lowdin") - w @ vt).abs().max())
    return out


def blocks(rounds: int, device: str, count: int = 64, k: int = 36) -> dict[str, Any]:
    out = {}
    for method in methods():
        u = torch.randn(count, k, k, device=device, requires_grad=True)
        grad = torch.randn(count, k, k, device=device)

        def together(u: Tensor = u, grad: Tensor = grad, method: str = method) -> object:
            return torch.autograd.grad(hs.functional.orthogonalize(u, method), u, grad)

        def loop(u: Tensor = u, grad: Tensor = grad, method: str = method) -> object:
            r = torch.stack([hs.functional.orthogonalize(block, method) for block in u.unbind(0)])
            return torch.autograd.grad(r, u, grad)

        variants = {"a loop over blocks": loop, "one call": together}
        out[method] = harness.interleave(variants, rounds, "a loop over blocks", device)
        harness.show(f"{method}, {count} blocks of {k}", out[method])
    return out


def reads(rounds: int, device: str, d: int = 288, times: int = 4) -> dict[str, Any]:
    """A training step of one layer that is called several times: R is computed once."""
    x = torch.randn(32, d, device=device)

    def step(calls: int) -> Callable[[], object]:
        model = nn.Sequential(nn.Linear(d, d, device=device), nn.Linear(d, 2, device=device))
        hs.orthogonal.attach(model, "gram_schmidt")

        def run() -> None:
            sum(model[0](x).square().mean() for _ in range(calls)).backward()

        return run

    variants = {"one call of the layer": step(1), f"{times} calls": step(times)}
    summary = harness.interleave(variants, rounds, "one call of the layer", device)
    harness.show(f"a step with a layer of {d} read once and {times} times", summary)
    return summary


def drift(d: int = 16, **settings: Any) -> dict[str, Any]:
    """Noisy descent towards a rotation; the worst max|RᵀR − I| over all steps."""
    torch.manual_seed(1)
    r = nn.Parameter(hs.functional.orthogonalize(torch.randn(d, d), "gram_schmidt"))
    target = hs.functional.orthogonalize(torch.randn(d, d), "cayley")
    optimizer = hs.optim.OrthogonalSGD([{"params": [r], "orthogonal": True}], lr=0.02, **settings)
    worst, begin = 0.0, time.process_time()
    for _ in range(STEPS):
        r.grad = (r - target + torch.randn(d, d)).detach()
        optimizer.step()
        worst = max(worst, optimizer.drift())
    out = {
        "d": d,
        "steps": STEPS,
        "settings": settings,
        "worst_defect": worst,
        "repairs": optimizer.state[r].get("repairs", 0),
        "seconds": round(time.process_time() - begin, 1),
    }
    print("drift:", out)
    return out


if __name__ == "__main__":
    main()
