"""Recurrent layers on a GPU against cuDNN's: forward + backward, batch 64, 128 steps, 256 units, 256 inputs.

Eager, and captured as a CUDA graph; float32 with TF32, float32 without, and bfloat16. "step by step" is the
definition, without kernels. Beside the times: the distance of outputs and gradients from those of float64.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

import harness
import hypersphere as hs
from hypersphere import kernels
from hypersphere.functional.operators import recurrence

BATCH, STEPS, UNITS, INPUTS = 64, 128, 256, 256


def layers(dtype: torch.dtype) -> dict[str, nn.RNNBase]:
    options: dict[str, Any] = {"batch_first": True, "device": "cuda", "dtype": dtype}
    size = (INPUTS, UNITS)
    learnable = hs.angular.Sigmoid(learnable=True)
    peers: dict[str, nn.RNNBase] = {"nn.LSTM": nn.LSTM(*size, **options), "nn.GRU": nn.GRU(*size, **options)}
    for peer in peers.values():
        peer.flatten_parameters()
    return {
        **peers,
        "SphereLSTM cosine": hs.nn.SphereLSTM(*size, **options),
        "SphereLSTM sigmoid": hs.nn.SphereLSTM(*size, angular="sigmoid", **options),
        "SphereLSTM sigmoid, learnable k": hs.nn.SphereLSTM(*size, angular=learnable, **options),
        "SphereGRU cosine": hs.nn.SphereGRU(*size, **options),
        "SphereGRU sigmoid": hs.nn.SphereGRU(*size, angular="sigmoid", **options),
        "DecoupledLSTM tanh": hs.nn.DecoupledLSTM(*size, **options),
        "DecoupledGRU tanh": hs.nn.DecoupledGRU(*size, **options),
        "SphereRNN cosine": hs.nn.SphereRNN(*size, **options),
    }


def step(layer: nn.RNNBase, x: Tensor, seed: Tensor) -> Callable[[], tuple[Tensor, ...]]:
    leaves = [x, *layer.parameters()]

    def run() -> tuple[Tensor, ...]:
        return torch.autograd.grad(layer(x)[0], leaves, seed)

    return run


def captured(run: Callable[[], object]) -> Callable[[], object]:
    """The same as one CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = run()
    graph.kept = kept
    return graph.replay


def plain() -> Any:
    return mock.patch.object(recurrence, "runs_fused", return_value=False)


def times(dtype: torch.dtype, rounds: int, slow: bool) -> dict[str, Any]:
    x = torch.randn(BATCH, STEPS, INPUTS, device="cuda", dtype=dtype, requires_grad=True)
    seed = torch.randn(BATCH, STEPS, UNITS, device="cuda", dtype=dtype)
    found: dict[str, Any] = {}
    table = {name: step(layer, x, seed) for name, layer in layers(dtype).items()}
    graphs = {name: captured(run) for name, run in table.items()}
    for way, runs in (("eager", table), ("captured", graphs)):
        for peer, mode in (("nn.LSTM", "LSTM"), ("nn.GRU", "GRU")):
            chosen = {name: run for name, run in runs.items() if mode in name or (mode == "GRU" and "RNN" in name)}
            found[f"{way} {mode}"] = harness.interleave(chosen, rounds, peer, "cuda", warmup=3)
    if slow:
        for peer, name in (("nn.LSTM", "SphereLSTM cosine"), ("nn.GRU", "SphereGRU cosine")):

            def by_steps(run: Callable[[], object] = table[name]) -> None:
                with plain():
                    run()

            chosen = {peer: table[peer], f"{name}, step by step": by_steps}
            found[f"eager {peer}, step by step"] = harness.interleave(chosen, 5, peer, "cuda", warmup=1)
    return found


def accuracy(dtype: torch.dtype) -> dict[str, Any]:
    """The largest ‖a − b‖/‖b‖ of the output and of all gradients to float64, by kernels and step by step."""
    found: dict[str, Any] = {}
    x64 = torch.randn(BATCH, 32, INPUTS, device="cuda", dtype=torch.float64)
    seed = torch.randn(BATCH, 32, UNITS, device="cuda", dtype=torch.float64)
    for name, layer in layers(torch.float64).items():
        if name.startswith("nn."):
            continue
        narrow = copy.deepcopy(layer).to(dtype)
        exact = copy.deepcopy(narrow).double()
        x = x64.to(dtype).requires_grad_()
        expected = _evaluate(exact, x.detach().double().requires_grad_(), seed.to(dtype).double())
        distances = {}
        for way in ("kernels", "step by step"):
            if way == "kernels":
                kernels.LAUNCHES.clear()
                result = _evaluate(copy.deepcopy(narrow), x, seed.to(dtype))
                counts = [kernels.LAUNCHES[f"recurrent_{way}_kernel"] for way in ("forward", "backward")]
                assert counts == [32, 32], kernels.LAUNCHES
            else:
                with plain():
                    result = _evaluate(copy.deepcopy(narrow), x, seed.to(dtype))
            errors = [((a.double() - b).norm() / b.norm()).item() for a, b in zip(result, expected, strict=True)]
            distances[way] = {"output": errors[0], "gradients": max(errors[1:])}
        found[name] = distances
    return found


def _evaluate(layer: nn.RNNBase, x: Tensor, seed: Tensor) -> list[Tensor]:
    output = layer(x)[0]
    return [output, *torch.autograd.grad(output, [x, *layer.parameters()], seed)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--out", type=Path, default=harness.RESULTS / "gpu_recurrent.json")
    options = parser.parse_args()
    torch.manual_seed(0)
    import triton

    payload: dict[str, Any] = {"environment": {**harness.environment("cuda"), "triton": triton.__version__}}
    payload["shape"] = {"batch": BATCH, "steps": STEPS, "units": UNITS, "inputs": INPUTS}
    for title, dtype, precision in (
        ("float32, TF32", torch.float32, "high"),
        ("float32", torch.float32, "highest"),
        ("bfloat16", torch.bfloat16, "high"),
    ):
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.allow_tf32 = precision == "high"
        entry = {"accuracy": accuracy(dtype), **times(dtype, options.rounds, slow=title == "float32, TF32")}
        payload[title] = entry
        for name, summary in entry.items():
            if name == "accuracy":
                for layer, row in summary.items():
                    print(
                        f"{title}: {layer:34s}", {k: f"{v['output']:.1e} {v['gradients']:.1e}" for k, v in row.items()}
                    )
            else:
                harness.show(f"{title}, {name}", summary)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(payload, indent=2) + "\n")


if __name__ == "__main__":
    main()
