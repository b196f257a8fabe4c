"""Pictures of the thesis that compare trained networks, on scikit-learn's digits: tools/gallery.py makes them.

Figure 2.7 (softmax, normalised class vectors, A-Softmax), 2.10 (m = 1 to 4 on the sphere, and angles of pairs), A.1
(the last ReLU), A.2 and A.3 (lengths and biases of class vectors), A.4 (biases), C.1 (DeepFool), C.3 (adversarial
training).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

import hypersphere as hs

STEPS = 600
ANNEALING = hs.losses.Annealing(base=100, gamma=0.5)  # λ falls to 0.3


@functools.cache
def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    data = hs.data.load("digits")
    return *_floats(data.train), *_floats(data.test)


def _floats(split: Any) -> tuple[Tensor, Tensor]:
    return split.images.float() / 127.5 - 1, split.labels


def flat(dim: int, conv: str = "plain", relu: bool = False, seed: int = 0) -> nn.Sequential:
    """A network whose features have ``dim`` dimensions."""
    torch.manual_seed(seed)
    linear: Callable[..., nn.Module] = nn.Linear
    if conv != "plain":
        linear = functools.partial(hs.nn.DecoupledLinear, magnitude=conv, angular="cosine")
    layers = [nn.Flatten(), linear(64, 128), nn.PReLU(), linear(128, 128), nn.PReLU(), linear(128, dim)]
    return nn.Sequential(*layers, *([nn.ReLU()] if relu else []))


def fit(
    network: nn.Module,
    head: nn.Module,
    images: Tensor,
    labels: Tensor,
    *,
    steps: int = STEPS,
    attack: Callable[..., Tensor] | None = None,
) -> None:
    """Adam with a cosine schedule; with an ``attack`` half of each batch is attacked first."""
    draw = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam([*network.parameters(), *head.parameters()], 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        batch = torch.randint(len(images), (64,), generator=draw)
        x, y = images[batch], labels[batch]
        if attack is not None:
            changed = attack(lambda inputs: head.logits(network(inputs)), x[:32], y[:32])  # type: ignore[operator]
            x = torch.cat([changed, x[32:]])
        loss = head(network(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    network.eval()


def planes(networks: dict[str, tuple[nn.Module, nn.Module]], classes: int = 10) -> Figure:
    """The test digits below ``classes`` in the plane of each network."""
    images, labels = digits()[2:]
    chosen = labels < classes
    figure = Figure(figsize=(3.0 * len(networks), 3.1), layout="constrained")
    panels = figure.subplots(1, len(networks))
    for (title, (network, head)), panel in zip(networks.items(), panels, strict=True):
        with torch.no_grad():
            hs.plots.features_2d(network(images[chosen]), labels[chosen], head.weight, title=title, ax=panel)
        if panel.get_legend() is not None:
            panel.get_legend().remove()
    return figure


def learned(network: nn.Module, head: nn.Module, classes: int = 10, **options: Any) -> tuple[nn.Module, nn.Module]:
    images, labels = digits()[:2]
    fit(network, head, images[labels < classes], labels[labels < classes], **options)
    return network, head


def features_2d_losses() -> Figure:
    heads = {
        "softmax": hs.losses.Softmax(2, 2, bias=True),
        "normalised class vectors": hs.losses.ASoftmax(2, 2, margin=1),
        "A-Softmax, m = 4": hs.losses.ASoftmax(2, 2, margin=4, annealing=ANNEALING),
    }
    return planes({name: learned(flat(2), head, 2) for name, head in heads.items()}, 2)


def features_3d_margins() -> Figure:
    images, labels = digits()[2:]
    known = labels < 6
    pair = labels[known] < 2
    figure = Figure(figsize=(11.0, 5.2))
    for column in range(4):
        annealing = ANNEALING if column else None
        network, head = learned(flat(3), hs.losses.ASoftmax(3, 6, margin=column + 1, annealing=annealing), 6)
        with torch.no_grad():
            features = network(images[known])
        sphere = figure.add_axes((0.25 * column, 0.42, 0.25, 0.5), projection="3d")
        hs.plots.features_3d(features, labels[known], head.weight, title=f"m = {column + 1}", ax=sphere)
        panel = figure.add_axes((0.045 + 0.24 * column, 0.1, 0.185, 0.27))
        hs.plots.angle_distributions(features[pair], labels[known][pair], ax=panel)
        panel.set(xlabel="angle of two samples (degrees)", ylabel="density" if column == 0 else "")
        for axes in (sphere, panel):
            if axes.get_legend() is not None:
                axes.get_legend().remove()
    return figure


def features_2d_relu() -> Figure:
    networks = {"with the last ReLU": True, "without": False}
    return planes({name: learned(flat(2, relu=relu), hs.losses.Softmax(2, 10)) for name, relu in networks.items()})


def features_2d_bias() -> Figure:
    kinds = {"with biases": True, "without": False}
    return planes({name: learned(flat(2), hs.losses.Softmax(2, 10, bias=bias)) for name, bias in kinds.items()})


def features_2d_adversarial() -> Figure:
    attack = functools.partial(hs.attacks.fgsm, eps=0.15, clip=(-1.0, 1.0))
    kinds = {"CNN": "plain", "sphere": "sphere", "ball": "ball", "tanh": "tanh"}
    return planes(
        {
            name: learned(flat(2, conv), hs.losses.Softmax(2, 10), attack=attack, steps=400)
            for name, conv in kinds.items()
        }
    )


@functools.cache
def uneven() -> tuple[nn.Module, Tensor]:
    """A softmax of digits of which class c keeps one in c + 1; and the samples of each class."""
    images, labels = digits()[:2]
    place = torch.zeros(10, dtype=torch.long)
    keep = []
    for label in labels.tolist():
        keep.append(int(place[label]) % (label + 1) == 0)
        place[label] += 1
    chosen = torch.tensor(keep)
    network, head = flat(32), hs.losses.Softmax(32, 10, bias=True)
    fit(network, head, images[chosen], labels[chosen])
    return head, labels[chosen].bincount(minlength=10)


def class_norms() -> Any:
    head, counts = uneven()
    return hs.plots.class_norms(head.weight, counts)


def class_biases() -> Any:
    return hs.plots.class_biases(uneven()[0].bias)


def perturbation_sizes() -> Any:
    images = digits()[2]
    sizes = {}
    for name, conv in {"CNN": "plain", "sphere": "sphere", "ball": "ball", "tanh": "tanh"}.items():
        network, head = learned(flat(32, conv), hs.losses.Softmax(32, 10))
        model = nn.Sequential(network, nn.Linear(32, 10, bias=False))
        model[1].weight = head.weight
        changed = hs.attacks.deepfool(model.eval(), images, clip=(-1.0, 1.0))
        sizes[name] = (changed - images).flatten(1).norm(dim=1)
    return hs.plots.perturbation_sizes(sizes)


FIGURES: dict[str, Callable[[], Any]] = {
    make.__name__: make
    for make in (
        features_2d_losses, features_3d_margins, features_2d_relu, features_2d_bias, features_2d_adversarial,
        class_norms, class_biases, perturbation_sizes,
    )
}  # fmt: skip
