"""Orthogonal training of the architectures of thesis 7.5, in small: the loss falls, the energy does not move."""

from __future__ import annotations

import math
from collections.abc import Callable

import orthogonal_reference as reference
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import hypersphere as hs
from hypersphere._core.registries import MAPS


class MLP(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 4))


class CNN(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            nn.Conv2d(1, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1, stride=2, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(128, 4),
        )


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 8, 3, padding=1)
        self.block = nn.Sequential(
            nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1),
        )  # fmt: skip
        self.fc = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.fc((x + self.block(x)).relu().mean((2, 3)))


class GCN(nn.Module):
    """Â·X·W twice, Â = D^(−1/2)(A + I)D^(−1/2), on a ring; a graph is an image whose pixels are its nodes' features."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 16)
        self.out = nn.Linear(16, 4)
        adjacency = torch.eye(8) + torch.eye(8).roll(1, 0) + torch.eye(8).roll(-1, 0)
        degree = adjacency.sum(-1).rsqrt()
        self.register_buffer("adjacency", degree[:, None] * adjacency * degree)

    def forward(self, x: Tensor) -> Tensor:
        x = (self.adjacency @ self.first(x.squeeze(1))).relu()
        return self.out((self.adjacency @ self.second(x)).relu().amax(1))


class PointNet(nn.Module):
    """Shared 1×1 convolutions and a maximum over points; the rows of an image are its points."""

    def __init__(self) -> None:
        super().__init__()
        self.points = nn.Sequential(nn.Conv1d(8, 16, 1), nn.ReLU(), nn.Conv1d(16, 32, 1), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.points(x.squeeze(1).mT).amax(-1))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.rnn, self.out = kind(8, 12, batch_first=True), nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.rnn(x.squeeze(1))[0][:, -1])


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.out = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.block(x.squeeze(1)).mean(1))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "mlp": MLP,
    "cnn": CNN,
    "resnet": ResNet,
    "gcn": GCN,
    "pointnet": PointNet,
    "rnn": lambda: Recurrent(nn.RNN),
    "lstm": lambda: Recurrent(nn.LSTM),
    "gru": lambda: Recurrent(nn.GRU),
    "transformer": Transformer,
}


def images(count: int = 96) -> tuple[Tensor, Tensor]:
    """Noisy versions of four 8 × 8 patterns."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 4
    patterns = torch.randn(4, 1, 8, 8, generator=generator)
    return patterns[labels] + 0.5 * torch.randn(count, 1, 8, 8, generator=generator), labels


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 40, relaxed: bool = False) -> list[float]:
    x, y = images()
    losses = []
    for _ in range(steps):
        loss = F.cross_entropy(model(x), y)
        losses.append(float(loss))
        if relaxed:
            loss = loss + hs.orthogonal.penalty(model, beta=0.01)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


def hidden_energy(model: nn.Module) -> float:
    total = 0.0
    for name in hs.orthogonal.matrices(model):
        total += reference.energy(_weight(model, name).detach().flatten(1).double().numpy())
    return total


def _weight(model: nn.Module, name: str) -> Tensor:
    module, _, tensor = name.rpartition(".")
    weight: Tensor = getattr(model.get_submodule(module), tensor)
    return weight


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("method", ["cayley", "gradient"])
def test_every_architecture_trains(name: str, method: str) -> None:
    torch.manual_seed(0)
    model = hs.orthogonal.attach(NETWORKS[name](), method)
    optimizer: torch.optim.Optimizer
    if method == "gradient":
        optimizer = hs.optim.OrthogonalSGD(model.parameters(), lr=0.1, momentum=0.9)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    before = {key: r.detach().clone() for key, r in hs.orthogonal.matrices(model).items()}
    energy = hidden_energy(model)
    losses = train(model, optimizer)
    assert losses[-1] < 0.7 * losses[0]
    assert hidden_energy(model) == pytest.approx(energy, rel=1e-5)
    for key, r in hs.orthogonal.matrices(model).items():
        moved = not torch.allclose(r, before[key], atol=1e-4)
        assert moved or r.numel() == 1, key
    x, _ = images()
    model.eval()
    outputs = model(x)
    torch.testing.assert_close(hs.orthogonal.merge(model)(x), outputs, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("method", [name for name in MAPS if name not in ("cayley", "gradient")])  # they have more
def test_every_method_trains(method: str) -> None:
    torch.manual_seed(0)
    model = hs.orthogonal.attach(MLP(), method, blocks=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = train(model, optimizer, relaxed=method == "relaxed")
    assert losses[-1] < 0.7 * losses[0]


def test_the_penalty_holds_relaxed_matrices_near_orthogonal() -> None:
    defects = {}
    for relaxed in (False, True):
        torch.manual_seed(0)
        model = hs.orthogonal.attach(MLP(), "relaxed")
        train(model, torch.optim.Adam(model.parameters(), lr=0.02), relaxed=relaxed)
        defects[relaxed] = math.sqrt(float(hs.orthogonal.penalty(model)))
    assert defects[True] < 0.7 * defects[False]


def test_progressive_training_goes_on_from_the_merged_weights() -> None:
    torch.manual_seed(0)
    model = hs.orthogonal.attach(MLP(), "cayley")
    first = train(model, torch.optim.Adam(model.parameters(), lr=0.01), steps=15)
    hs.orthogonal.merge(model)
    hs.orthogonal.attach(model, "cayley", init="identity")
    second = train(model, torch.optim.Adam(model.parameters(), lr=0.01), steps=15)
    assert second[0] < first[-1] * 1.05
    assert second[-1] < second[0]


def test_half_precision_training_under_autocast() -> None:
    torch.manual_seed(0)
    model = hs.orthogonal.attach(MLP(), "cayley")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x, y = images()
    losses = []
    for _ in range(30):
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x), y)
        losses.append(float(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.7 * losses[0]
    for r in hs.orthogonal.matrices(model).values():
        assert r.dtype == torch.float32
        assert float((r.mT @ r - torch.eye(len(r))).detach().abs().max()) < 1e-5
