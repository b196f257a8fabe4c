"""Heads at 100,000 classes: time and memory of the dense way, of blocks of classes, and of pytorch-metric-learning.

    python benchmarks/losses.py [--rounds N] [--device cpu|cuda]

A step is forward and backward with gradients for features and class vectors: N = 256, d = 128, C = 100,000,
float32. Memory is what a step needs at its peak beyond those gradients.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import pytorch_metric_learning
import torch
import torch.nn.functional as F
from pytorch_metric_learning import losses as peer
from torch import Tensor, nn

import harness
import hypersphere as hs
from hypersphere._core.registries import HEADS

N, D, C = 256, 128, 100_000


class TorchLinear(nn.Module):
    """F.linear_cross_entropy of torch ≥ 2.13, in its chunked form: plain softmax only."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(C, D) / math.sqrt(D))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.linear_cross_entropy(x, self.weight, y, options=nn.LinearCrossEntropyOptions())


PEERS: dict[str, tuple[str, Callable[[], nn.Module]]] = {
    "arcface": ("pytorch-metric-learning", lambda: peer.ArcFaceLoss(C, D)),
    "a_softmax": ("pytorch-metric-learning", lambda: peer.SphereFaceLoss(C, D)),
    "l_softmax": ("pytorch-metric-learning", lambda: peer.LargeMarginSoftmaxLoss(C, D)),
}
if hasattr(F, "linear_cross_entropy"):
    PEERS["softmax"] = ("torch linear_cross_entropy", TorchLinear)


def variants(entry: Any) -> dict[str, Callable[[], nn.Module]]:
    """A declared head dense and in blocks, and its peer if it has one."""
    found = {"dense": lambda: entry.value(D, C, chunk=None), "blocks": lambda: entry.value(D, C)}
    found |= dict([PEERS[entry.name]] if entry.name in PEERS else [])
    return {f"{entry.label} {name}": build for name, build in found.items()}


FAMILIES = {entry.label: variants(entry) for entry in HEADS.entries() if entry.name != "triplet"}  # no class vectors


def step(head: nn.Module, device: str) -> Callable[[], object]:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(N, D, generator=generator).to(device)
    labels = torch.randint(0, C, (N,), generator=generator).to(device)

    def run() -> object:
        head.zero_grad(set_to_none=True)
        x = features.clone().requires_grad_()
        loss = head(x, labels)
        loss.backward()
        return loss.detach(), x.grad

    return run


def extra_memory(build: Callable[[], nn.Module], device: str) -> float:
    """MB beyond the gradients of features and parameters."""
    gradients = 4 * (N * D + C * D)
    if device == "cuda":
        run = step(build().to(device), device)
        run()
        torch.cuda.synchronize()
        base = torch.cuda.memory_allocated() - 4 * C * D
        torch.cuda.reset_peak_memory_stats()
        run()
        return (torch.cuda.max_memory_allocated() - base - gradients) / 2**20

    def prepare() -> Callable[[], object]:
        torch.manual_seed(0)
        small = hs.losses.ArcFace(D, 512, chunk=128)
        small(torch.randn(8, D), torch.arange(8)).backward()  # load what loads once
        return step(build(), device)

    return (harness.peak_extra_memory(prepare) - gradients) / 2**20


def main() -> None:
    options = harness.arguments(__doc__ or "", rounds=5)
    device = options.device
    sys.setrecursionlimit(10_000)
    memory = {
        name: round(extra_memory(build, device), 1) for members in FAMILIES.values() for name, build in members.items()
    }
    payload: dict[str, Any] = {
        "sizes": {"N": N, "d": D, "C": C},
        "pytorch_metric_learning": pytorch_metric_learning.__version__,
        "extra_memory_MB": memory,
        "memory_ratio_to_dense": {
            family: round(memory[f"{family} blocks"] / memory[f"{family} dense"], 4) for family in FAMILIES
        },
        "time": {},
    }
    print("extra memory, MB:", *(f"  {name:40s} {value:8.1f}" for name, value in memory.items()), sep="\n")
    for family, members in FAMILIES.items():
        runs = {name: step(build().to(device), device) for name, build in members.items()}
        summary = harness.interleave(runs, options.rounds, f"{family} dense", device)
        payload["time"][family] = summary
        harness.show(family, summary)
    print("wrote", harness.write(options.name or "losses", payload, device))


if __name__ == "__main__":
    main()
