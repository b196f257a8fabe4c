"""Two-dimensional features of handwritten digits under L-Softmax with m = 1..4: thesis Figure 2.2.

    python examples/margin_features.py [--out margin_features.png] [--steps 1500]

A small network maps the 8×8 digits of scikit-learn to the plane; the head is L-Softmax with the published
MNIST annealing, sped up to end within the run (λ falls from 1000 to 0.4). Larger m gives narrower classes and
wider gaps between them. Needs scikit-learn and matplotlib; about a minute on one CPU core.
"""

from __future__ import annotations

import argparse
import math

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


@torch.no_grad()
def measure(features: Tensor, labels: Tensor, head: hs.losses.LSoftmax) -> dict[str, float]:
    """Accuracy, mean width of a class, and the smallest angle between two classes (each to 95% of its samples)."""
    directions = hs.functional.unit(features)
    centres = hs.functional.unit(torch.stack([directions[labels == c].mean(0) for c in range(10)]))
    off = hs.functional.angle((directions * centres[labels]).sum(1))
    width = torch.stack([off[labels == c].quantile(0.95) for c in range(10)])
    apart = hs.functional.angle(centres @ centres.T) - width[:, None] - width[None, :]
    apart.fill_diagonal_(math.inf)
    accuracy = (head.logits(features).argmax(1) == labels).float().mean()
    return {
        "accuracy": accuracy.item(),
        "width": math.degrees(2 * width.mean()),
        "smallest_angle_between": math.degrees(apart.min()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="margin_features.png")
    parser.add_argument("--steps", type=int, default=1500)
    options = parser.parse_args()

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    images, labels = digits()
    figure, axes = plt.subplots(1, 4, figsize=(16, 4.4))
    for margin, axis in zip((1, 2, 3, 4), axes, strict=True):
        network, head = train(margin, options.steps)
        with torch.no_grad():
            features = network(images)
        found = measure(features, labels, head)
        print(f"m = {margin}: " + ", ".join(f"{name} {value:.3f}" for name, value in found.items()), flush=True)
        axis.scatter(features[:, 0], features[:, 1], c=labels, cmap="tab10", s=4)
        for vector in hs.functional.unit(head.weight.detach()) * features.norm(dim=1).quantile(0.98):
            axis.plot([0, vector[0]], [0, vector[1]], color="0.6", lw=0.8, zorder=0)
        axis.set_title(f"m = {margin}   smallest angle between classes {found['smallest_angle_between']:.1f}°")
        axis.set_aspect("equal")
    figure.tight_layout()
    figure.savefig(options.out, dpi=110)
    print(f"wrote {options.out}")


if __name__ == "__main__":
    main()
