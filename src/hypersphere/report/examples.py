"""The test samples a network finds hardest, as pictures.

Hardest: the largest angular visual hardness θ(w_y, x) / Σ_i θ(w_i, x). Slowest angle: the largest angle θ(w_y, x) that
training has left. Features start at about a right angle to every class vector, so these samples have moved least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..evaluation import Outputs
from ..functional import angle, unit
from ..metrics import angular_visual_hardness
from .pictures import data_uri


@dataclass(frozen=True)
class Example:
    """A test sample: its picture (None where the data are not images), classes, angle in degrees and hardness."""

    index: int
    picture: str | None
    true: str
    predicted: str
    degrees: float
    hardness: float

    @property
    def right(self) -> bool:
        return self.true == self.predicted


def hardest(found: Outputs, most: int) -> list[Example]:
    """By angular visual hardness, hardest first."""
    return _ranked(found, _hardness(found), most)


def slowest(found: Outputs, most: int) -> list[Example]:
    """By the angle to the own class vector, largest first."""
    return _ranked(found, _angles(found), most)


def _ranked(found: Outputs, score: Tensor, most: int) -> list[Example]:
    assert found.logits is not None
    order = score.nan_to_num(-1.0).sort(descending=True, stable=True).indices[:most].tolist()
    angles, hardness, predicted = _angles(found), _hardness(found), found.logits.argmax(1)
    return [
        Example(
            index,
            None if found.images is None else data_uri(found.images[index]),
            found.classes[int(found.labels[index])],
            found.classes[int(predicted[index])],
            math.degrees(float(angles[index])),
            float(hardness[index]),
        )
        for index in order
    ]


def _angles(found: Outputs) -> Tensor:
    assert found.class_vectors is not None
    own = unit(found.class_vectors.double())[found.labels]
    return angle((unit(found.features.double()) * own).sum(1))


def _hardness(found: Outputs) -> Tensor:
    assert found.class_vectors is not None
    return torch.cat(
        [
            angular_visual_hardness(features, found.class_vectors, labels)
            for features, labels in zip(found.features.split(4096), found.labels.split(4096), strict=True)
        ]
    )
