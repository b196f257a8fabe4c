"""Small networks and checks that the tests of orthogonal training share."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from hypersphere.functional.orthogonalize import methods

ORTHOGONAL = (*methods(), "gradient")
OTHERS = ("free", "relaxed", "cholesky", "triangular", "banded", "symmetric", "hessenberg", "low_rank")


def convnet() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, groups=4),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 6, 2, groups=2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 5),
        nn.Linear(5, 4),
    )


IMAGES = torch.randn(2, 3, 9, 9, generator=torch.Generator().manual_seed(0))


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase], **options: object) -> None:
        super().__init__()
        self.rnn = kind(5, 6, 2, **options)  # type: ignore[arg-type]
        self.out = nn.Linear(self.rnn(torch.zeros(1, 1, 5))[0].shape[-1], 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.rnn(x)[0])


def defect(r: Tensor) -> float:
    r = r.detach().double()
    return float((r.mT @ r - torch.eye(len(r), dtype=r.dtype)).abs().max())


def snapshot(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def assert_untouched(model: nn.Module, before: dict[str, Tensor]) -> None:
    after = model.state_dict()
    assert list(after) == list(before)
    for name, tensor in before.items():
        assert torch.equal(after[name], tensor), name
    assert not any(parametrize.is_parametrized(module) for module in model.modules())


def rows(layer: nn.Module, weight: Tensor) -> list[Tensor]:
    """The neurons, one by one: filters, or for transposed convolutions the inputs' weights of one output."""
    if not isinstance(layer, nn.ConvTranspose2d):
        return [w.flatten() for w in weight]
    per_group = weight.shape[0] // layer.groups
    groups = [weight[g * per_group : (g + 1) * per_group] for g in range(layer.groups)]
    return [group[:, out].flatten() for group in groups for out in range(weight.shape[1])]
