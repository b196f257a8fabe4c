"""One thing of each kind, as somebody outside the package would write it: no file of hypersphere knows of it."""

import matplotlib.pyplot as plt
import torch
from torch import nn

import hypersphere as hs


class Cubic:
    """g = cos³ θ."""

    def from_cos(self, c):
        return c**3

    def from_angle(self, theta):
        return theta.cos() ** 3


class Root(nn.Module):
    """h = √(‖x‖ + ε), with a learned ε for each layer."""

    def __init__(self):
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(1))

    def forward(self, n):
        return (n + self.raw.exp()).sqrt()


class Quadratic(hs.losses.MarginSoftmax):
    """Target s·(c − m·(1 − c)²), c = cos θ_y."""

    def target(self, cos, sample):
        return cos - self.margin * (1 - cos) ** 2


class Spread(nn.Module):
    """The mean squared cosine between the neurons of every layer but the last."""

    def __init__(self, model, head=None, weight=1.0):
        super().__init__()
        self.weight = weight
        self._layers = [[m for m in model.modules() if isinstance(m, nn.Conv2d)]]  # in a list: the model is not ours

    def forward(self):
        rows = [nn.functional.normalize(layer.weight.flatten(1)) for layer in self._layers[0]]
        return self.weight * torch.stack([(r @ r.T).square().mean() for r in rows]).sum()


class Signs(torch.optim.Optimizer):
    """w ← w − lr·sign m, m the running mean of the gradient."""

    def __init__(self, params, lr=1e-3, momentum=0.9, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in (p for p in group["params"] if p.grad is not None):
                mean = self.state[p].setdefault("mean", torch.zeros_like(p)).lerp_(p.grad, 1 - group["momentum"])
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * mean.sign())


class Tiny(nn.Module):
    """A network: one spherical layer, and a classifier unless a head has the class vectors."""

    def __init__(self, num_classes=10, in_channels=1, angular="cosine"):
        super().__init__()
        self.feature_dim = 8
        self.conv = hs.nn.SphereConv2d(in_channels, 8, 3, stride=2, angular=angular)
        self.classifier = nn.Linear(8, num_classes) if num_classes else nn.Identity()

    def features(self, x):
        return self.conv(x).amax((2, 3))

    def forward(self, x):
        return self.classifier(self.features(x))


def stripes(root, count=64):
    """A data set: horizontal and vertical stripes with noise."""
    noise = torch.randint(0, 64, (2 * count, 1, 8, 8), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    labels = torch.arange(2 * count) % 2
    lines = (torch.arange(8) % 2 * 160).to(torch.uint8)
    noise += torch.where(labels.bool()[:, None, None, None], lines, lines[:, None])
    split = hs.data.Split(noise, labels, ("horizontal", "vertical"))
    index = torch.arange(2 * count)
    return hs.data.Dataset("stripes", split.subset(index < count), split.subset(index >= count))


def mean_norm(candidate):
    """The mean length of the test features."""
    features, _ = candidate.embedding()
    return {"mean_norm": float(features.norm(dim=1).mean())}


def two_lines(values):
    """A plot: the values, and their mean."""
    figure, axes = plt.subplots()
    axes.plot(values)
    axes.axhline(sum(values) / len(values))
    return figure


def remark(view):
    """A panel of the report: one sentence about the run."""
    return f"{view.subject.label} was trained by somebody else."


def skewed(u):
    """A map: the Cayley transform of half of the skew part."""
    a = (u - u.mT) / 4
    identity = torch.eye(u.shape[-1], dtype=u.dtype, device=u.device)
    return torch.linalg.solve(identity - a, identity + a)
