"""Cost of the hyperspherical operators: time of forward + backward, and bytes kept for backward.

Reference: Conv2d + BatchNorm + ReLU, 3×3, 64 channels, batch 32, 32×32, float32; then the same with
one group for each channel. "by hand" is the straightforward version that a user would write.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import harness
import hypersphere as hs
from hypersphere._core.registries import ANGULAR

CHANNELS, BATCH, SIZE = 64, 32, 32


class ByHand(nn.Module):
    """SphereConv as the equations stand: acos of a clamped cosine, everything kept by autograd."""

    KNOWN = ("cosine", "linear", "sigmoid")

    def __init__(self, angular: str, groups: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(CHANNELS, CHANNELS // groups, 3, 3) * 0.05)
        self.register_buffer("ones", torch.ones(groups, CHANNELS // groups, 3, 3))
        self.angular, self.groups = angular, groups

    def forward(self, x: Tensor) -> Tensor:
        kernel = self.weight / self.weight.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        norms = (F.conv2d(x**2, self.ones, padding=1, groups=self.groups) + 1e-8).sqrt()
        cos = F.conv2d(x, kernel, padding=1, groups=self.groups) / norms
        if self.angular == "cosine":
            return cos
        theta = torch.acos(cos.clamp(-1 + 1e-6, 1 - 1e-6))
        if self.angular == "linear":
            return 1 - 2 * theta / math.pi
        k = 0.3
        scale = (1 + math.exp(-math.pi / (2 * k))) / (1 - math.exp(-math.pi / (2 * k)))
        e = torch.exp(theta / k - math.pi / (2 * k))
        return scale * (1 - e) / (1 + e)


def layers() -> dict[str, nn.Module]:
    table: dict[str, nn.Module] = {"Conv2d": nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)}
    for g in ANGULAR:
        table[f"SphereConv2d {g}"] = hs.nn.SphereConv2d(CHANNELS, CHANNELS, 3, padding=1, angular=g)
    learnable = hs.angular.Sigmoid(learnable=True)
    table["SphereConv2d sigmoid, learnable k"] = hs.nn.SphereConv2d(CHANNELS, CHANNELS, 3, padding=1, angular=learnable)
    table["TanhConv2d cosine"] = hs.nn.DecoupledConv2d(CHANNELS, CHANNELS, 3, padding=1, magnitude="tanh")
    for g in ByHand.KNOWN:
        table[f"by hand {g}"] = ByHand(g)
    return table


def depthwise_layers() -> dict[str, nn.Module]:
    options = {"padding": 1, "groups": CHANNELS}
    table: dict[str, nn.Module] = {"Conv2d": nn.Conv2d(CHANNELS, CHANNELS, 3, bias=False, **options)}
    for g in ANGULAR:
        table[f"SphereConv2d {g}"] = hs.nn.SphereConv2d(CHANNELS, CHANNELS, 3, angular=g, **options)
    table["TanhConv2d cosine"] = hs.nn.DecoupledConv2d(CHANNELS, CHANNELS, 3, magnitude="tanh", **options)
    for g in ByHand.KNOWN:
        table[f"by hand {g}"] = ByHand(g, CHANNELS)
    return table


def training_step(layer: nn.Module, device: str, compiled: bool) -> Callable[[], None]:
    block: nn.Module = nn.Sequential(layer, nn.BatchNorm2d(CHANNELS), nn.ReLU()).to(device)
    x = torch.randn(BATCH, CHANNELS, SIZE, SIZE, device=device, requires_grad=True)
    seed = torch.randn(BATCH, CHANNELS, SIZE, SIZE, device=device)
    leaves = [x, *block.parameters()]
    run_block = torch.compile(block, fullgraph=True) if compiled else block

    def run() -> None:
        torch.autograd.grad(run_block(x), leaves, seed)

    return run


def kept_bytes(layer: nn.Module) -> int:
    """Unique storages that a saved-tensor hook sees."""
    block = nn.Sequential(layer, nn.BatchNorm2d(CHANNELS), nn.ReLU())
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = block(torch.randn(BATCH, CHANNELS, SIZE, SIZE, requires_grad=True))
    del out
    return sum(storages.values())


def main() -> None:
    harness.pin_allocator()
    options = harness.arguments("Cost of the operators against Conv2d + BatchNorm + ReLU", rounds=41)
    torch.manual_seed(0)
    compiled = options.device == "cuda"
    times = {}
    for kind, table in (("", layers()), ("depthwise: ", depthwise_layers())):
        steps = {name: training_step(layer, options.device, compiled) for name, layer in table.items()}
        times[kind] = harness.interleave(steps, options.rounds, "Conv2d", options.device, warmup=3)
        harness.show(f"{kind}forward + backward with BatchNorm and ReLU", times[kind])
    kept = {name: kept_bytes(layer) for name, layer in layers().items()}
    memory = {name: {"bytes": size, "ratio": round(size / kept["Conv2d"], 4)} for name, size in kept.items()}
    print("\nkept for backward (eager)")
    for name, row in memory.items():
        print(f"  {name:44s} {row['bytes'] / 2**20:8.2f} MiB  ratio {row['ratio']:.3f}")
    shape = {"channels": CHANNELS, "batch": BATCH, "size": SIZE, "dtype": "float32"}
    payload = {"setting": shape, "time": times[""], "depthwise": times["depthwise: "], "kept": memory}
    path = harness.write(options.name or "operators", payload, options.device)
    print(f"\nwrote {path}")


if __name__ == "__main__":
    main()
