"""Makes every picture of docs/gallery.md: python tools/gallery.py [--out docs/images] [NAME ...]

Trains a few small networks on scikit-learn's digits where a picture needs one: under three minutes on one CPU core.
Every picture is at most 120 kB; a larger one ends the program with an error.
"""

from __future__ import annotations

import argparse
import functools
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import hypersphere as hs

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gallery_figures import FIGURES

LIMIT = 120 * 1024
STEPS = 150
SEEN = 5  # the open-set networks know the digits 0 to 4


@functools.cache
def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    data = hs.data.load("digits")
    to_floats = [split.images.float() / 127.5 - 1 for split in (data.train, data.test)]
    return to_floats[0], data.train.labels, to_floats[1], data.test.labels


def train(
    network: nn.Module,
    head: nn.Module,
    steps: int,
    *,
    lr: float = 2e-3,
    seed: int = 0,
    classes: int = 10,
    regularizer: Callable[[], Tensor] | None = None,
    record: Callable[[int, float], dict[str, float]] | None = None,
) -> list[dict[str, float]]:
    """Adam with a cosine schedule on the digits below ``classes``; the log of what ``record`` says every 10 steps."""
    images, labels, *_ = digits()
    images, labels = images[labels < classes], labels[labels < classes]
    generator = torch.Generator().manual_seed(seed)
    parameters = list({*network.parameters(), *head.parameters()})
    optimizer = torch.optim.Adam(parameters, lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    log = []
    for step in range(1, steps + 1):
        network.train()
        batch = torch.randint(len(images), (64,), generator=generator)
        loss = head(
            network.features(images[batch]) if hasattr(network, "features") else network(images[batch]), labels[batch]
        )
        optimizer.zero_grad()
        (loss if regularizer is None else loss + regularizer()).backward()
        optimizer.step()
        schedule.step()
        if record is not None and (step % 10 == 0 or step == 1):
            network.eval()
            log.append({"step": step, "loss": loss.item(), **record(step, loss.item())})
    network.eval()
    return log


def cnn(seed: int = 0, **options: Any) -> nn.Module:
    torch.manual_seed(seed)
    return hs.models.create(
        "cnn3", num_classes=0, in_channels=1, image_size=(8, 8), widths=(16, 24, 32), feature_dim=32, **options
    )


# Networks that several pictures share ---------------------------------------------------------------------------------


@functools.cache
def low_dimensional(dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Features of the test digits in two or three dimensions, their labels, the class vectors."""
    torch.manual_seed(dim)
    network = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 128), nn.PReLU(), nn.Linear(128, 128), nn.PReLU(), nn.Linear(128, dim)
    )
    if dim == 2:
        head: nn.Module = hs.losses.LSoftmax(2, 10, margin=2, annealing=hs.losses.Annealing(base=100, gamma=0.02))
    else:
        head = hs.losses.CosFace(3, 10, margin=0.1, scale=8.0)
    train(network, head, 1500, lr=3e-3)
    images, labels = digits()[2:]
    with torch.no_grad():
        return network(images), labels, head.weight.detach()


@functools.cache
def learning_logs() -> dict[str, list[list[dict[str, float]]]]:
    """Three seeds of a CNN, its SphereNet, and the SphereNet with MHE; accuracy and energies every 10 steps."""
    kinds: dict[str, dict[str, Any]] = {
        "CNN": {},
        "SphereNet": {"conv": "sphere", "angular": "sigmoid"},
        "SphereNet + MHE": {"conv": "sphere", "angular": "sigmoid"},
    }
    return {name: [_logged(name, seed, options) for seed in range(3)] for name, options in kinds.items()}


def _logged(name: str, seed: int, options: dict[str, Any]) -> list[dict[str, float]]:
    images, labels = digits()[2:]
    network = cnn(seed, **options)
    head = hs.losses.Softmax(32, 10)
    meter = hs.regularizers.MHE(network, head)

    def record(step: int, loss: float) -> dict[str, float]:
        with torch.no_grad():
            right = head.logits(network(images)).argmax(1) == labels
        hidden = {
            name.removesuffix(".weight"): float(value) for name, value in meter.layers().items() if "body" in name
        }
        layers = {f"energy/{name.removeprefix('body.').removesuffix('.0.op')}": value for name, value in hidden.items()}
        return {"accuracy": 100 * right.float().mean().item(), "energy": sum(hidden.values()) / len(hidden), **layers}

    penalty = meter if "MHE" in name else None
    return train(network, head, STEPS, seed=seed, regularizer=penalty, record=record)


@functools.cache
def decoupled() -> tuple[nn.Module, nn.Module]:
    """A network that learns k of each filter and ρ of each layer, and its head."""
    network = cnn(conv="decoupled", magnitude="tanh", angular=hs.angular.Sigmoid(learnable=True))
    head = hs.losses.Softmax(32, 10)
    train(network, head, 300, lr=1e-2)
    return network, head


@functools.cache
def open_set() -> dict[str, Tensor]:
    """Features of all test digits from networks that have seen the digits 0 to 4 only."""
    found = {}
    heads = {
        "softmax": lambda: hs.losses.Softmax(32, SEEN),
        "CosFace": lambda: hs.losses.CosFace(32, SEEN, margin=0.2, scale=16.0),
        "SphereFace": lambda: hs.losses.SphereFace(32, SEEN, margin=2),
    }
    for name, make in heads.items():
        network = cnn()
        train(network, make(), STEPS, classes=SEEN)
        with torch.no_grad():
            found[name] = network(digits()[2])
    return found


# Pictures -------------------------------------------------------------------------------------------------------------


def angular_curves() -> Any:
    return hs.plots.angular_curves()


def magnitude_curves() -> Any:
    return hs.plots.magnitude_curves()


def psi_curves() -> Any:
    return hs.plots.psi_curves()


def features_2d() -> Any:
    return hs.plots.features_2d(*low_dimensional(2))


def features_3d() -> Any:
    return hs.plots.features_3d(*low_dimensional(3), view=(25.0, 65.0))


def angle_distributions() -> Any:
    network, _ = decoupled()
    with torch.no_grad():
        return hs.plots.angle_distributions(network(digits()[2]), digits()[3])


def learning_curves() -> Any:
    logs = learning_logs()
    return hs.plots.learning_curves({name: logs[name] for name in ("CNN", "SphereNet")})


def energy_curves() -> Any:
    logs = learning_logs()
    return hs.plots.energy_curves({name: logs[name] for name in ("SphereNet", "SphereNet + MHE")})


def layer_energies() -> Any:
    return hs.plots.layer_energies(*decoupled())


def learned_k() -> Any:
    return hs.plots.learned_k(decoupled()[0])


def learned_rho() -> Any:
    return hs.plots.learned_rho(decoupled()[0])


def filters() -> Any:
    return hs.plots.filters(decoupled()[0])


def confusion_matrix() -> Any:
    network, head = decoupled()
    with torch.no_grad():
        return hs.plots.confusion_matrix(digits()[3], head.logits(network(digits()[2])))


def cosine_confusion_matrix() -> Any:
    network, head = decoupled()
    with torch.no_grad():
        return hs.plots.cosine_confusion_matrix(network(digits()[2]), digits()[3], head.weight)


def roc() -> Any:
    """All pairs of test images of the digits 5 to 9, which no network has seen."""
    labels = digits()[3]
    unseen = labels >= SEEN
    first, second = torch.triu_indices(int(unseen.sum()), int(unseen.sum()), 1)
    same = labels[unseen][first] == labels[unseen][second]
    results = {}
    for name, features in open_set().items():
        directions = hs.functional.unit(features[unseen])
        results[name] = hs.metrics.verification((directions[first] * directions[second]).sum(1), same)
    return hs.plots.roc(results)


def cmc() -> Any:
    """Each test digit against a gallery of one image of each class."""
    labels = digits()[3]
    first = torch.stack([(labels == c).nonzero()[0, 0] for c in range(10)])
    probes = torch.ones(len(labels), dtype=torch.bool).index_fill_(0, first, False)
    results = {
        name: hs.metrics.identification(x[probes], labels[probes], x[first], labels[first])
        for name, x in open_set().items()
    }
    return hs.plots.cmc(results)


def neuron_trajectories() -> Any:
    return hs.plots.neuron_trajectories()


def neuron_trajectories_2d() -> Any:
    return hs.plots.neuron_trajectories(dim=2, neurons=5)


def weighted_neuron_trajectories() -> Any:
    return hs.plots.weighted_neuron_trajectories()


def weighted_neuron_trajectories_two() -> Any:
    return hs.plots.weighted_neuron_trajectories(weighted=2)


def condition_numbers() -> Any:
    return hs.plots.condition_numbers()


PICTURES: dict[str, Callable[[], Any]] = FIGURES | {
    make.__name__: make
    for make in (
        angular_curves, magnitude_curves, psi_curves, features_2d, features_3d, angle_distributions, learning_curves,
        energy_curves, layer_energies, learned_k, learned_rho, filters, confusion_matrix, cosine_confusion_matrix, roc,
        cmc, neuron_trajectories, neuron_trajectories_2d, weighted_neuron_trajectories,
        weighted_neuron_trajectories_two, condition_numbers,
    )
}  # fmt: skip


def save(figure: Any, path: Path) -> None:
    """As PNG with a palette of 256 colours: a third of the size, and no difference to the eye."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=110)
    Image.open(buffer).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"only these of: {', '.join(PICTURES)}")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "docs" / "images")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in PICTURES]
    if unknown:
        parser.error(f"unknown picture {unknown[0]!r}: choose of {', '.join(PICTURES)}")
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    heavy = []
    for name in options.names or PICTURES:
        path = options.out / f"gallery_{name}.png"
        save(PICTURES[name](), path)
        print(f"{path} ({path.stat().st_size / 1024:.0f} kB)", flush=True)
        if path.stat().st_size > LIMIT:
            heavy.append(name)
    if heavy:
        print(f"over {LIMIT // 1024} kB: {', '.join(heavy)}", file=sys.stderr)
    return 1 if heavy else 0


if __name__ == "__main__":
    sys.exit(main())
