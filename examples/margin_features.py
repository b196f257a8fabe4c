"""Two-dimensional features of handwritten digits under L-Softmax with m = 1..4: thesis Figure 2.2.

    python examples/margin_features.py [--out margin_features.png] [--steps 1500] [--margins 1,2,3,4]

A small network maps the 8×8 digits of scikit-learn to the plane; the head is L-Softmax with the published MNIST
annealing, sped up to end within the run (λ falls from 1000 to 0.4). Larger m gives narrower classes and wider gaps
between them: a sector holds 95% of the directions of its class. Needs scikit-learn and matplotlib; about a minute on
one CPU core.
"""

from __future__ import annotations

import argparse
import math
from typing import Any

import torch
from torch import Tensor, nn

import hypersphere as hs


def digits() -> tuple[Tensor, Tensor]:
    from sklearn.datasets import load_digits

    data = load_digits()
    return torch.tensor(data.data / 16, dtype=torch.float32), torch.tensor(data.target)


def train(margin: int, steps: int = 1500, seed: int = 0) -> tuple[nn.Module, hs.losses.LSoftmax]:
    """A network to the plane and its L-Softmax head, from scratch."""
    torch.manual_seed(seed)
    images, labels = digits()
    network = nn.Sequential(nn.Linear(64, 128), nn.PReLU(), nn.Linear(128, 128), nn.PReLU(), nn.Linear(128, 2))
    published = hs.losses.Annealing.preset("l_softmax_mnist")
    annealing = hs.losses.Annealing(
        published.base, published.gamma * 10_000 / steps, published.power, published.minimum
    )
    head = hs.losses.LSoftmax(2, 10, margin=margin, annealing=annealing)
    parameters = [*network.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=steps)
    for _ in range(steps):
        batch = torch.randint(0, len(images), (128,))
        optimizer.zero_grad()
        head(network(images[batch]), labels[batch]).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        schedule.step()
    return network.eval(), head.eval()


def spread(features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """The mean direction of each class, and the angle to it within which 95% of the class lie."""
    directions = hs.functional.unit(features)
    centres = hs.functional.unit(torch.stack([directions[labels == c].mean(0) for c in range(10)]))
    off = hs.functional.angle((directions * centres[labels]).sum(1))
    return centres, torch.stack([off[labels == c].quantile(0.95) for c in range(10)])


@torch.no_grad()
def measure(features: Tensor, labels: Tensor, head: hs.losses.LSoftmax) -> dict[str, float]:
    """Accuracy, mean width of a class, and the smallest angle between two classes (each to 95% of its samples)."""
    centres, width = spread(features, labels)
    apart = hs.functional.angle(centres @ centres.T) - width[:, None] - width[None, :]
    apart.fill_diagonal_(math.inf)
    accuracy = (head.logits(features).argmax(1) == labels).float().mean()
    return {
        "accuracy": accuracy.item(),
        "width": math.degrees(2 * width.mean()),
        "smallest_angle_between": math.degrees(apart.min()),
    }


def draw(axis: Any, features: Tensor, labels: Tensor) -> None:
    """The features, and for each class the sector that holds 95% of its directions."""
    from matplotlib.patches import Wedge

    colours = [f"C{number}" for number in range(10)]
    centres, width = spread(features, labels)
    axis.scatter(*features.T, c=[colours[label] for label in labels], s=3)
    for number, (centre, half) in enumerate(zip(centres, width, strict=True)):
        middle, half = math.degrees(math.atan2(centre[1], centre[0])), math.degrees(half)
        axis.add_patch(Wedge((0, 0), 1.12, middle - half, middle + half, color=colours[number], alpha=0.25, lw=0))
    axis.set(aspect="equal", xlim=(-1.2, 1.2), ylim=(-1.2, 1.2), xticks=(), yticks=())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="margin_features.png")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--margins", default="1,2,3,4")
    options = parser.parse_args()

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    images, labels = digits()
    margins = [int(word) for word in options.margins.split(",")]
    figure, axes = plt.subplots(1, len(margins), figsize=(4.4 * len(margins), 5), squeeze=False, layout="constrained")
    for margin, axis in zip(margins, axes[0], strict=True):
        network, head = train(margin, options.steps)
        with torch.no_grad():
            features = network(images)
        found = measure(features, labels, head)
        print(f"m = {margin}: " + ", ".join(f"{name} {value:.3f}" for name, value in found.items()), flush=True)
        draw(axis, features / features.norm(dim=1).quantile(0.99), labels)
        name = "plain softmax" if margin == 1 else f"L-Softmax, m = {margin}"
        words = f"classes {found['width']:.0f}° wide, gaps of at least {found['smallest_angle_between']:.0f}°"
        axis.set_title(f"{name}\n{words}")
    figure.savefig(options.out, dpi=110)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
