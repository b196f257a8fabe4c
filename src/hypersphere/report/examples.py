"""The test samples a network finds hardest, as pictures.

Hardest: the largest angular visual hardness θ(w_y, x) / Σ_i θ(w_i, x). Slowest angle: the largest angle θ(w_y, x) that
training has left. Features start at about a right angle to every class vector, so these samples have moved least.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from .._core.png import png
from ..evaluation import Outputs
from ..functional import angle, unit
from ..metrics import angular_visual_hardness


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


def data_uri(image: Tensor, size: int = 96) -> str:
    """An image for ``src=``, averaged down to at most ``size`` pixels a side."""
    if image.shape[0] not in (1, 3):  # e.g. two channels: show their mean
        image = image.float().mean(0, keepdim=True).round().to(torch.uint8)
    longest = max(image.shape[1:])
    if longest > size:
        target = [max(1, round(side * size / longest)) for side in image.shape[1:]]
        image = F.interpolate(image[None].float(), target, mode="area")[0].round().clamp(0, 255).to(torch.uint8)
    return "data:image/png;base64," + base64.b64encode(png(image)).decode()
