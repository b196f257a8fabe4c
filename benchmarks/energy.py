"""Energies: N = 20,000 neurons against the straightforward version, and regularizers on a training step of CNN-9.

python benchmarks/energy.py [--rounds N] [--device cpu|cuda]
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from harness import arguments, interleave, peak_extra_memory, show, write
from hypersphere.functional import energy
from hypersphere.regularizers import MHE, CoMHE

COUNT, DIM = 20_000, 128


def straightforward(w: Tensor) -> Tensor:
    """What one writes first: the whole matrix of squared distances."""
    unit = F.normalize(w)
    squares = 2 - 2 * unit @ unit.T
    off_diagonal = 1 - torch.eye(len(w), dtype=w.dtype, device=w.device)
    return (off_diagonal / (squares + 1e-6)).sum() / (len(w) * (len(w) - 1))


def with_gradient(function: Callable[[Tensor], Tensor], device: str) -> Callable[[], Tensor]:
    w = torch.randn(COUNT, DIM, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()

    def run() -> Tensor:
        w.grad = None
        value = function(w)
        value.backward()
        return value.detach()

    return run


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "full space": energy,
    "half space": lambda w: energy(w, half_space=True),
    "full space, s=1": lambda w: energy(w, 1.0),
    "half space, s=1": lambda w: energy(w, 1.0, half_space=True),
    "full space, s=0": lambda w: energy(w, 0.0),
    "straightforward": straightforward,
}


def many_neurons(rounds: int, device: str) -> dict[str, object]:
    runs = {name: with_gradient(function, device) for name, function in FUNCTIONS.items()}
    summary = interleave(runs, rounds, "full space", device, warmup=1)
    show(f"energy and gradient, N={COUNT}, d={DIM}, float32", summary)
    if device == "cpu":
        memory = {}
        for name in ("full space", "half space", "straightforward"):
            memory[name] = round(peak_extra_memory(lambda f=FUNCTIONS[name]: with_gradient(f, device)) / 1e6, 1)
            print(f"  {name:44s} {memory[name]:10.1f} MB extra at the peak")
        summary["peak_extra_mb"] = memory
    return summary


def cnn9() -> nn.Sequential:
    """The paper's plain CNN-9 (Table 5): three stages of three 3×3 convolutions, 64/96/128 wide, then 256."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (64, 96, 128):
        for _ in range(3):
            layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128 * 16, 256), nn.ReLU(), nn.Linear(256, 10))


def training_step(rounds: int, device: str) -> dict[str, object]:
    torch.manual_seed(0)
    model = cnn9().to(device)
    images, labels = torch.randn(128, 3, 32, 32, device=device), torch.randint(10, (128,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    penalties: dict[str, Callable[[], Tensor]] = {
        "MHE": MHE(model),
        "half-space MHE": MHE(model, half_space=True),
        "RP-CoMHE": CoMHE(model),
        "RP-CoMHE, redrawn every step": CoMHE(model, refresh=1),
        "AP-CoMHE (alternating)": CoMHE(model, projection="angle_preserving"),
        "AP-CoMHE (unrolled)": CoMHE(model, projection="angle_preserving", unroll=1),
        "adversarial CoMHE": CoMHE(model, projection="adversarial"),
        "group CoMHE": CoMHE(model, projection="group"),
        "bilateral CoMHE": CoMHE(model, projection="bilateral"),
    }

    if device == "cuda":  # many small kernels: compiled, they become few
        for name in ("MHE", "RP-CoMHE"):
            compiled = MHE(model) if name == "MHE" else CoMHE(model)
            compiled.compile()
            penalties[f"{name}, compiled"] = compiled

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()

    def alone(penalty: Callable[[], Tensor]) -> Callable[[], None]:
        def run() -> None:  # as much as the penalty adds to a step: its value, its gradient, accumulated
            penalty().backward()

        return run

    step()
    runs = {"step": step, **{name: alone(penalty) for name, penalty in penalties.items()}}
    summary = interleave(runs, rounds, "step", device)
    show("CNN-9, batch 128: what a regularizer adds to a training step", summary)
    return summary


def main() -> None:
    options = arguments(__doc__ or "", rounds=5)
    payload = {
        "many_neurons": many_neurons(max(options.rounds // 2, 2), options.device),
        "training_step": training_step(options.rounds, options.device),
    }
    print(write(options.name or "energy", payload, options.device))


if __name__ == "__main__":
    main()
