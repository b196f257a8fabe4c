"""What a run trains on: resident sets, one graph, or image folders, behind one face."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from .. import attacks, data
from .._core.errors import check_choice, check_count
from ..data.loader import IGNORE
from .options import option

__all__ = ["DataConfig", "Facts", "Resident", "Source", "make_source"]


@dataclass(frozen=True)
class DataConfig:
    """The data set, its batches and its augmentation."""

    name: str = option("digits", "data set, see `hypersphere list datasets`")
    root: str | None = option(
        None, "folder of the data; none: $HYPERSPHERE_DATA, else the user's cache", material=False
    )
    batch_size: int = option(128, "samples of one step, over all processes together")
    eval_batch_size: int = option(500, "samples of one evaluation batch", material=False)
    per_class: int = option(
        1, "samples of a class that stand together in a batch, for losses that compare samples; 1: shuffled freely"
    )
    normalize: str = option(
        "symmetric", "pixels: symmetric (x-127.5)/128, unit x/255, standard (by mean and std; folders: ImageNet's)"
    )
    shrink: int = option(1, "average so many by so many pixels into one; the side must be a multiple of it")
    hflip: bool = option(False, "mirror left-right at random")
    vflip: bool = option(False, "mirror up-down at random")
    pad: int = option(0, "pad by so many pixels and crop at random")
    points: int = option(1024, "points of a cloud")
    rotate: bool = option(True, "turn point clouds about the upright axis, and jitter them")
    imbalance: str | None = option(None, "class-imbalance variant: single, multiple, digit0 (thesis 5.5.1)")
    image_size: int = option(224, "window cut from the images of a folder")
    resize: int = option(256, "size to which the images of a folder are resized first")
    workers: int = option(8, "processes that decode the images of a folder", material=False)

    def __post_init__(self) -> None:
        check_choice("data.name", self.name, data.list_datasets())
        check_count("data.batch_size", self.batch_size)
        check_count("data.eval_batch_size", self.eval_batch_size)
        check_count("data.shrink", self.shrink)
        check_count("data.per_class", self.per_class)


@dataclass(frozen=True)
class Facts:
    """What the model must know of the data."""

    num_classes: int
    in_channels: int | None = None
    image_size: tuple[int, int] | None = None
    in_features: int | None = None
    classes: tuple[str, ...] = ()


IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of the training images, pixels in [0, 1]
Batch = tuple[tuple[Tensor, ...], Tensor]


class Source(Protocol):
    """Batches by position. ``resident``: :meth:`batch` takes a tensor on the device and waits for nothing."""

    facts: Facts
    resident: bool
    open_set: bool
    """Whether the test classes are others than those of training."""
    test_classes: tuple[str, ...]

    @property
    def pictures(self) -> Tensor | None:
        """The test images as bytes on the CPU, in the order of :meth:`test`; None where there are none in memory."""
        ...

    @property
    def pixels(self) -> attacks.Pixels | None:
        """Bounds of the inputs in terms of pixels; None where they are no images."""
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


def make_source(
    config: DataConfig,
    seed: int,
    device: torch.device,
    rank: int = 0,
    world: int = 1,
    channels_last: bool = False,
) -> Source:
    """Read the data and put it where the training is."""
    options: dict[str, Any] = {"points": config.points} if config.name == "modelnet40" else {}
    if config.imbalance is not None:
        options |= {"imbalance": config.imbalance, "seed": seed}
    dataset = data.load(config.name, config.root, progress=rank == 0, **options)
    if isinstance(dataset, data.Graph):
        if config.per_class > 1:
            raise ValueError(f"data.per_class={config.per_class} orders batches: a graph is one batch, leave it at 1")
        return _Graph(dataset.to(device))
    if isinstance(dataset, data.ImageTree | data.ImageFolder):
        return _Tree(dataset, config, seed, device, rank, world)
    if isinstance(dataset, data.Faces):
        pairs = dataset.test_pairs.within(dataset.test_index)
        small = dataset.open_set.shrunk(config.shrink)
        return Resident(small, config, seed, device, rank, world, channels_last, pairs)
    if isinstance(dataset, data.Dataset):
        return Resident(dataset.shrunk(config.shrink), config, seed, device, rank, world, channels_last)
    if isinstance(dataset, data.PointClouds):
        return Resident(dataset, config, seed, device, rank, world, channels_last)
    raise ValueError(f"data.name={config.name!r} is a {type(dataset).__name__}, which this program does not train on")


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
    ) -> None:
        self.test_classes = dataset.test.classes
        self.open_set = self.test_classes != dataset.train.classes
        self.pairs = pairs
        self.pixels: attacks.Pixels | None = None
        self._test_split = dataset.test
        shared: dict[str, Any] = {"device": device, "rank": rank, "world": world}
        self.facts = Facts(dataset.num_classes, classes=dataset.classes)
        augment: Any
        if isinstance(dataset, data.Dataset):
            channels, height, width = dataset.shape
            self.facts = Facts(dataset.num_classes, channels, (height, width), classes=dataset.classes)
            shared |= {"normalize": config.normalize, "channels_last": channels_last}
            if config.normalize == "standard":
                shared |= {"mean": dataset.mean, "std": dataset.std}
            self.pixels = attacks.pixels(config.normalize, mean=dataset.mean, std=dataset.std, device=device)
            augment = data.Augment(hflip=config.hflip, vflip=config.vflip, pad=config.pad)
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


class _Graph:
    """One graph: every step sees all nodes, the loss those of the training set."""

    resident, open_set, pictures, pairs, pixels = True, False, None, None, None

    def __init__(self, graph: data.Graph) -> None:
        self.test_classes = graph.classes
        self.facts = Facts(graph.num_classes, in_features=graph.features.shape[1], classes=graph.classes)
        self._inputs = (graph.normalized_features(), graph.adjacency())
        self._train, self._test = (_labels_of(graph, nodes) for nodes in (graph.train, graph.test))

    def seek(self, step: int) -> int:
        return step

    def batch(self, position: Tensor) -> Batch:
        return self._inputs, self._train

    def test(self) -> Iterator[Batch]:
        yield self._inputs, self._test


def _labels_of(graph: data.Graph, nodes: Tensor) -> Tensor:
    labels = torch.full_like(graph.labels, IGNORE)
    labels[nodes] = graph.labels[nodes]
    return labels


class _Tree:
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
        self.pixels = attacks.pixels(config.normalize, mean=IMAGENET_MEAN, std=IMAGENET_STD, device=device)
        shared: dict[str, Any] = {"workers": config.workers, "seed": seed, "rank": rank, "world": world}
        if isinstance(tree, data.ImageFolder):
            train, test = tree, None
            shared |= {"size": None, "hflip": config.hflip}
        else:
            train, test = tree.train, tree.test
            shared |= {"size": config.image_size, "resize": config.resize, "hflip": config.hflip}
        self.test_classes = () if test is None else test.classes
        self.open_set = self.test_classes != train.classes
        self.loader = data.FolderLoader(
            train, batch_size=config.batch_size, train=True, per_class=config.per_class, **shared
        )
        self.facts = Facts(len(train.classes), 3, self.loader.shape, classes=train.classes)
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
            raise ValueError(f"{self.name} has no test images: judge on another set, e.g. --evaluation.data lfw")
        for images, labels in self._test.filled():
            yield self._ready(images, labels)

    def _ready(self, images: Tensor, labels: Tensor) -> Batch:
        images = images.to(self.device, non_blocking=True)
        inputs = data.normalize(images, self.kind, mean=IMAGENET_MEAN, std=IMAGENET_STD)
        return (inputs,), labels.to(self.device, non_blocking=True)
