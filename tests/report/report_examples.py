"""Outputs and verifications made of random numbers."""

from __future__ import annotations

import torch

from hypersphere import train
from hypersphere.evaluation import Candidate, Outputs, verify
from hypersphere.runs import Team


def outputs(
    count: int = 60,
    classes: int = 5,
    dim: int = 8,
    images: tuple[int, int, int] | None = (1, 8, 8),
    names: tuple[str, ...] | None = None,
    **changes,
) -> Outputs:
    generator = torch.Generator().manual_seed(3)
    labels = torch.arange(count) % classes
    vectors = torch.randn(classes, dim, generator=generator)
    features = vectors[labels] + torch.randn(count, dim, generator=generator)
    pictures = None if images is None else torch.randint(0, 256, (count, *images), generator=generator).to(torch.uint8)
    values = {
        "labels": labels,
        "features": features,
        "logits": features @ vectors.mT,
        "class_vectors": vectors,
        "images": pictures,
        "classes": names or tuple(f"class {i}" for i in range(classes)),
    }
    return Outputs(**{**values, **changes})


class Source:
    """Test samples of thirty classes that no training saw."""

    pairs = None

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.arange(300) % 30
        centres = torch.randn(30, 6, generator=generator)
        self.inputs = centres[self.labels] + 0.4 * torch.randn(300, 6, generator=generator)

    def test(self):
        for start in (0, 150):
            yield (self.inputs[start : start + 150],), self.labels[start : start + 150]


class Net(torch.nn.Identity):
    def features(self, x):
        return x


def verified():
    config = train.with_values(
        train.Config(),
        {"evaluation.protocol": "verification", "evaluation.folds": 5, "evaluation.pairs": 20},
    )
    source = Source()
    return verify(Candidate(Net(), source, Team(0, 1, torch.device("cpu")), config)), source
