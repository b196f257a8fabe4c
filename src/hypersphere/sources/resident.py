"""Images or point clouds that live on the device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .. import attacks, data
from ..config import DataConfig
from ..runs import Facts
from .source import Batch, share_of_most


class Resident:
    """Images or point clouds that live on the device."""

    resident = True

    def __init__(
        self,
        dataset: data.Dataset | data.PointClouds,
        config: DataConfig,
        seed: int,
        device: torch.device,
        rank: int,
        world: int,
        channels_last: bool,
        pairs: data.Pairs | None = None,
        own: data.OwnImages | None = None,
    ) -> None:
        if empty := [part for part in ("train", "test") if not len(getattr(dataset, part))]:
            raise ValueError(f"data.name={config.name!r} has no samples in {' and '.join(empty)}")
        self.own = own
        self.test_classes = dataset.test.classes
        self.open_set = self.test_classes != dataset.train.classes
        self.pairs, self.frequent = pairs, share_of_most(dataset.train.labels)
        self.pixels: attacks.Pixels | None = None
        self._test_split = dataset.test
        shared: dict[str, Any] = {"device": device, "rank": rank, "world": world}
        self.facts = Facts(dataset.num_classes, classes=dataset.classes)
        augment: Any
        if isinstance(dataset, data.Dataset):
            channels, height, width = dataset.shape
            if (tested := tuple(dataset.test.images.shape[1:])) != dataset.shape:
                raise ValueError(
                    f"data.name={config.name!r} has images of shape {dataset.shape} to train on and {tested} to test "
                    "on: give all of them one shape"
                )
            resized = None if own is None else "cover"
            self.facts = Facts(dataset.num_classes, channels, (height, width), classes=dataset.classes, resized=resized)
            shared |= {"normalize": config.normalize, "channels_last": channels_last}
            if config.normalize in data.MEASURED:
                shared |= {"mean": dataset.mean, "std": dataset.std}
                self.facts = replace(self.facts, mean=dataset.mean, std=dataset.std)
            self.pixels = attacks.pixels(config.normalize, mean=dataset.mean, std=dataset.std, device=device)
            augment = data.Augment(hflip=config.hflip, vflip=config.vflip, pad=config.pad, mode=config.pad_mode)
            augment = augment if config.hflip or config.vflip or config.pad else None
        else:
            augment = data.PointAugment() if config.rotate else None
        self.loader = data.Loader(
            dataset.train, config.batch_size, augment=augment, seed=seed, per_class=config.per_class, **shared
        )
        size = min(-(-config.eval_batch_size // world) * world, -(-len(dataset.test.labels) // world) * world)
        self._test = data.Loader(dataset.test, size, shuffle=False, drop_last=False, **shared)

    @property
    def pictures(self) -> Tensor | None:
        return self._test_split.images.cpu() if isinstance(self._test_split, data.Split) else None

    def seek(self, step: int) -> int:
        return self.loader.seek(step)

    def batch(self, position: Tensor) -> Batch:
        inputs, labels = self.loader.batch(position)
        return (inputs,), labels

    def test(self) -> Iterator[Batch]:
        for step in range(len(self._test)):
            inputs, labels = self._test.batch(step)
            yield (inputs,), labels
