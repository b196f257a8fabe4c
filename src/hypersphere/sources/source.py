"""What every source of a run gives: batches to learn from, a test split to be evaluated on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from torch import Tensor

from .. import attacks, data
from ..runs import Facts

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of the training images, pixels in [0, 1]
Batch = tuple[tuple[Tensor, ...], Tensor]


def share_of_most(labels: Tensor) -> float:
    """Share of the most frequent label."""
    return float(labels.bincount().max()) / len(labels) if len(labels) else 0.0


class Source(Protocol):
    """Batches by position. ``resident``: :meth:`batch` takes a tensor on the device and waits for nothing."""

    facts: Facts
    resident: bool
    open_set: bool
    """Whether the test classes are others than those of training."""
    test_classes: tuple[str, ...]
    frequent: float
    """Share of the class that most training samples have: the accuracy of always naming it."""
    own: data.OwnImages | None
    """The user's own images, whose split a run writes down; None for every other set."""

    @property
    def pictures(self) -> Tensor | None:
        """The test images as bytes on the CPU, in the order of :meth:`test`; None where there are none in memory."""
        ...

    @property
    def pixels(self) -> attacks.Pixels | None:
        """Bounds of the inputs in terms of pixels; None where they are not images."""
        ...

    @property
    def pairs(self) -> data.Pairs | None:
        """The official pairs of the test images, for verification; None where there are none."""
        ...

    def seek(self, step: int) -> int:
        """Prepare the epoch of a global step; the position within it."""
        ...

    def batch(self, position: Tensor) -> Batch:
        """Inputs of the model and labels."""
        ...

    def test(self) -> Iterator[Batch]:
        """The test split once; labels -100 do not count."""
        ...
