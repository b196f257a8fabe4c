"""Folders of images, streamed from disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .. import attacks, data
from ..config import DataConfig
from ..runs import Facts
from .source import IMAGENET_MEAN, IMAGENET_STD, Batch, share_of_most


class Tree:
    """Folders of images, decoded by worker processes; bytes travel, numbers are made on the device.

    A folder alone is for training only and its images are taken as they are (aligned faces).
    """

    resident, pictures, pairs = False, None, None

    def __init__(
        self,
        tree: data.ImageTree | data.ImageFolder,
        config: DataConfig,
        seed: int,
        device: torch.device,
        rank: int,
        world: int,
    ) -> None:
        self.device, self.kind, self.name = device, config.normalize, config.name
        self.own = tree if isinstance(tree, data.OwnImages) else None
        if config.vflip:
            more = ", or raise --data.resident, up to which images are kept in memory" if self.own else ""
            raise ValueError(
                f"data.vflip=True: the images of {self.name} are streamed, not mirrored up-down: leave it out{more}"
            )
        self.pixels = attacks.pixels(config.normalize, mean=IMAGENET_MEAN, std=IMAGENET_STD, device=device)
        shared: dict[str, Any] = {"workers": config.decoders, "seed": seed, "rank": rank, "world": world}
        if isinstance(tree, data.ImageFolder):
            train, test = tree, None
            shared |= {"size": None, "hflip": config.hflip}
        else:
            train, test = tree.train, tree.test
            shared |= {"size": config.image_size, "resize": config.resize, "hflip": config.hflip}
        self.test_classes = () if test is None else test.classes
        self.open_set, self.frequent = self.test_classes != train.classes, share_of_most(train.labels)
        self.loader = data.FolderLoader(
            train, batch_size=config.batch_size, train=True, per_class=config.per_class, **shared
        )
        resized = None if test is None else "window"
        self.facts = Facts(len(train.classes), 3, self.loader.shape, classes=train.classes, resized=resized)
        if config.normalize in data.MEASURED:
            self.facts = replace(self.facts, mean=IMAGENET_MEAN, std=IMAGENET_STD)
        self._test = None
        if test is not None:
            size = -(-config.eval_batch_size // world) * world
            self._test = data.FolderLoader(test, batch_size=size, train=False, **shared)
        self._stream: Iterator[tuple[Tensor, Tensor]] = iter(())
        self._next = -1

    def seek(self, step: int) -> int:
        epoch, inside = divmod(step, len(self.loader))
        if step != self._next or inside == 0:
            self._stream = iter(self.loader.epoch(epoch, start=inside))
        self._next = step + 1
        return inside

    def batch(self, position: Tensor) -> Batch:
        return self._ready(*next(self._stream))

    def test(self) -> Iterator[Batch]:
        if self._test is None:
            raise ValueError(f"{self.name} has no test images: evaluate on another set, e.g. --evaluation.data lfw")
        for images, labels in self._test.filled():
            yield self._ready(images, labels)

    def _ready(self, images: Tensor, labels: Tensor) -> Batch:
        images = images.to(self.device, non_blocking=True)
        inputs = data.normalize(images, self.kind, mean=IMAGENET_MEAN, std=IMAGENET_STD)
        return (inputs,), labels.to(self.device, non_blocking=True)
