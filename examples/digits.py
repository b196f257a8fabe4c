"""Train a small SphereNet beside its ordinary CNN on scikit-learn's digits, and show both curves.

    python examples/digits.py [--epochs 30] [--seeds 2] [--out runs/digits]

The SphereNet is the CNN with one call: ``hs.convert(cnn, angular="sigmoid")``. Both start from the
same weights and see the same batches. Everything runs on a laptop's CPU in about a minute.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor, nn

import hypersphere as hs
from hypersphere import data

BLOCKS = " ▁▂▃▄▅▆▇█"
COLORS = {"CNN": "#0072B2", "SphereNet": "#D55E00"}  # safe for colour-blind eyes
BATCH = 64


def cnn() -> nn.Sequential:
    """Three convolutions with BatchNorm and ReLU, a 2-D feature one can look at, ten classes."""
    layers: list[nn.Module] = []
    for inputs, outputs, stride in ((1, 32, 1), (32, 64, 2), (64, 64, 2)):
        layers += [nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 4, 2), nn.Linear(2, 10))


def networks(seed: int) -> dict[str, nn.Module]:
    torch.manual_seed(seed)
    plain = cnn()
    return {"CNN": plain, "SphereNet": hs.convert(plain, angular="sigmoid", include=["0", "3", "6"])}


def train(
    name: str, net: nn.Module, digits: data.Dataset, epochs: int, seed: int, progress: Progress, task: TaskID
) -> list[float]:
    """Test accuracy in percent after each epoch."""
    x, y = (digits.train.images.float() - 127.5) / 128, digits.train.labels
    optimizer = torch.optim.Adam(hs.optim.parameter_groups(net, 5e-4), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * (len(y) // BATCH))
    projection = hs.optim.WeightProjection(net, every=20) if name == "SphereNet" else None
    order = torch.Generator().manual_seed(seed)
    accuracies: list[float] = []
    for _ in range(epochs):
        net.train()
        for batch in torch.randperm(len(y), generator=order).split(BATCH)[: len(y) // BATCH]:
            loss = F.cross_entropy(net(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if projection is not None:
                projection.step()
        accuracies.append(accuracy(net, digits.test))
        curve = "".join(BLOCKS[min(8, max(0, round((a - 60) / 5)))] for a in accuracies)
        progress.update(task, advance=1, curve=curve, loss=f"{loss.item():.3f}", accuracy=f"{accuracies[-1]:.2f}%")
    return accuracies


@torch.no_grad()
def accuracy(net: nn.Module, split: data.Split) -> float:
    net.eval()
    predicted = net((split.images.float() - 127.5) / 128).argmax(1)
    return 100 * (predicted == split.labels).float().mean().item()


@torch.no_grad()
def features(net: nn.Module, images: Tensor) -> Tensor:
    """The 2-D features in front of the classifier."""
    assert isinstance(net, nn.Sequential)
    net.eval()
    return net[:-1]((images.float() - 127.5) / 128)


def draw_curves(curves: dict[str, list[list[float]]], path: Path) -> None:
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, runs in curves.items():
        values = torch.tensor(runs)
        epochs = range(1, values.shape[1] + 1)
        axes.plot(epochs, values.mean(0), color=COLORS[name], label=name)
        axes.fill_between(epochs, values.amin(0), values.amax(0), color=COLORS[name], alpha=0.2, linewidth=0)
    axes.set(xlabel="epoch", ylabel="test accuracy (%)", title="Digits: mean and range over seeds", ylim=(60, 100))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=130)
    plt.close(figure)


def draw_features(nets: dict[str, nn.Module], split: data.Split, path: Path) -> None:
    figure, panels = plt.subplots(1, len(nets), figsize=(9, 4.2), layout="constrained")
    for axes, (name, net) in zip(panels, nets.items(), strict=True):
        points = features(net, split.images)
        dots = axes.scatter(*points.T, c=split.labels, cmap="tab10", s=8)
        axes.set(
            title=f"{name}: 2-D features of the test digits", aspect="equal", xlabel="feature 1", ylabel="feature 2"
        )
    figure.colorbar(dots, ax=panels, label="digit", ticks=range(10))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/digits"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    digits = data.load("digits")
    console.print(
        f"[bold]digits[/]: {len(digits.train.labels)} training and {len(digits.test.labels)} test images, 8×8"
    )
    curves: dict[str, list[list[float]]] = {name: [] for name in COLORS}
    columns = (
        "[bold]{task.description:12}",
        BarColumn(bar_width=8),
        "{task.fields[curve]:30}",
        "loss {task.fields[loss]}",
    )
    began = time.perf_counter()
    with Progress(
        *map(_column, columns), _column("{task.fields[accuracy]}"), TimeRemainingColumn(), console=console
    ) as progress:
        for seed in range(options.seeds):
            nets = networks(seed)
            for name, net in nets.items():
                task = progress.add_task(f"{name} {seed}", total=options.epochs, curve="", loss="-", accuracy="-")
                curves[name].append(train(name, net, digits, options.epochs, seed, progress, task))
    draw_curves(curves, options.out / "curves.png")
    draw_features(nets, digits.test, options.out / "features.png")
    summary = Table("network", "final accuracy, each seed", "mean final", "mean best", "mean after 3 epochs")
    for name, runs in curves.items():
        values = torch.tensor(runs)
        cells = (values[:, -1].mean(), values.amax(1).mean(), values[:, min(2, options.epochs - 1)].mean())
        summary.add_row(name, ", ".join(f"{v:.2f}" for v in values[:, -1]), *(f"{cell:.2f}%" for cell in cells))
    console.print(summary)
    (options.out / "result.json").write_text(
        json.dumps({"torch": torch.__version__, "accuracy": curves}, indent=1) + "\n"
    )
    console.print(
        f"{time.perf_counter() - began:.0f} s. See curves.png, features.png and result.json in {options.out}."
    )
    console.print("Next, from .venv/bin:")
    console.print("  python examples/margin_features.py                    margin losses, a picture")
    console.print("  hypersphere train digits.spherenet                    a recipe, its run folder")
    console.print("  hypersphere train paper.table1.sigmoid0.3.softmax     CIFAR-10, as the paper")


def _column(column: object) -> TextColumn | BarColumn:
    return column if isinstance(column, BarColumn) else TextColumn(str(column))


if __name__ == "__main__":
    main()
