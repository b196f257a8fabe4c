"""The data of a run, from its settings: to learn from, or only to be evaluated on."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from .. import data
from ..config import Config, DataConfig
from ..runs import Facts, SeedFolder, Team
from .faces import on_faces
from .graph import Graph
from .resident import Resident
from .source import IMAGENET_MEAN, IMAGENET_STD, Source
from .tree import Tree

logger = logging.getLogger("hypersphere")


def training_source(config: Config, seed: int, team: Team) -> Source:
    """The data of a training, and in the place of their test split what ``evaluation.data`` names."""
    source = make_source(config.data, seed, team.device, team.rank, team.world, config.run.channels_last)
    name = config.evaluation.data
    if name is not None:
        return on_faces(name, source, config, team)
    if not source.test_classes:
        raise ValueError(
            f"{config.data.name} has no test images: evaluate on another set, "
            "e.g. --evaluation.protocol verification --evaluation.data lfw"
        )
    return source


def evaluation_source(config: Config, facts: Facts, seed: int, device: torch.device) -> Source:
    """For a network that is trained: its test split alone, which needs no training data where it is another set."""
    if config.evaluation.data is None:
        # no batch is drawn to train on: that of the settings may not fit the data of a loop that was not ours, and
        # earlier versions left vflip out of streamed images without a word
        found = make_source(replace(config.data, batch_size=1, per_class=1, vflip=False), seed, device)
        if config.data.name == "folder" and facts.classes and tuple(found.facts.classes or ()) != tuple(facts.classes):
            raise ValueError(
                f"the images in {config.data.root} are of other classes than the network was trained on: "
                f"{_some(found.facts.classes)}, not {_some(facts.classes)}. Name the folder of its own images with "
                "root= (--root)"
            )
        return found
    return on_faces(config.evaluation.data, facts, config, Team(0, 1, device))


def make_source(
    config: DataConfig,
    seed: int,
    device: torch.device,
    rank: int = 0,
    world: int = 1,
    channels_last: bool = False,
) -> Source:
    """Read the data and put it where the training is."""
    dataset, pairs, own = _read(config, seed, rank)
    if isinstance(dataset, data.Graph):
        if config.per_class > 1:
            raise ValueError(
                f"data.per_class={config.per_class} groups samples, but a graph is one batch: leave it at 1"
            )
        return Graph(dataset.to(device), config.validate)
    if isinstance(dataset, data.OwnImages | data.ImageTree | data.ImageFolder):
        return Tree(dataset, config, seed, device, rank, world)
    if isinstance(dataset, data.Dataset | data.PointClouds):
        return Resident(dataset, config, seed, device, rank, world, channels_last, pairs, own)
    raise ValueError(
        f"data.name={config.name!r} is a {type(dataset).__name__}, which this program does not train on: return a "
        "hypersphere.data.Dataset (of two Splits with uint8 images), PointClouds, Graph or ImageTree"
    )


def _some(classes: Sequence[str] | None) -> str:
    """Names of classes, the first of many."""
    names = list(classes or ())
    return ", ".join(names[:4]) + (f", ... ({len(names):,} classes)" if len(names) > 4 else "")


def as_split(config: Config, folder: SeedFolder) -> Config:
    """The settings that read the user's images as a run has split them, where it wrote that down and it is needed.

    A run that has stopped at damaged images goes on without them: if they are gone by now, the others would be split
    anew. A table that was named from elsewhere is not found from here.
    """
    table, root = config.data.table, config.data.root
    place = data.default_root() if root is None else Path(root).expanduser()
    lost = table is not None and not any(os.path.exists(path) for path in (table, place / table))
    return _by_table(config, folder) if folder.split.exists() and (lost or folder.damaged.exists()) else config


def as_evaluated(config: Config, folder: SeedFolder) -> Config:
    """The settings that read the user's images as a run has split them, so that none that was trained on is tested.

    Images that came later do not count. Of those that are gone a warning tells, and the others are taken. A folder that
    has none of them is another set, and is split anew.

    Raises:
        FileNotFoundError: If more than half of the images are gone: it may be another set.
    """
    root, table = config.data.root, config.data.table
    place = data.default_root() if root is None else Path(root).expanduser()
    listed = data.list_images(place, str(folder.split.absolute())) if folder.split.exists() else []
    gone = [picture.path for picture in listed if not (place / picture.path).exists()]
    if len(gone) == len(listed):
        return config
    if gone and table is None:  # tables of earlier versions left blanks around names out
        stripped = {picture.path.strip() for picture in data.list_images(place) if picture.path != picture.path.strip()}
        if stripped.issuperset(gone):
            return as_split(config, folder)
    if gone:
        what = f"{len(gone):,} of the {len(listed):,} images of {folder.split} are not in {place}"
        if 2 * len(gone) > len(listed):
            raise FileNotFoundError(f"{what}: name the folder of the run's own images with root= (--root)")
        logger.warning("%s, the first is %s: the others are used", what, gone[0])
        config = replace(config, data=replace(config.data, unreadable="skip"))
    return _by_table(config, folder)


def _by_table(config: Config, folder: SeedFolder) -> Config:
    """With the split that was written down, for which the share and the seed of a split change nothing."""
    usual = DataConfig()
    return replace(
        config,
        data=replace(
            config.data,
            table=str(folder.split.absolute()),
            held_out=usual.held_out,
            split_seed=usual.split_seed,
        ),
    )


def training_moments(config: DataConfig, seed: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel of the images to train on, pixels in [0, 1].

    Images that are streamed are normalised by ImageNet's.
    """
    found = _read(replace(config, batch_size=1, per_class=1), seed, 0).dataset
    if isinstance(found, data.ImageTree | data.ImageFolder):
        return IMAGENET_MEAN, IMAGENET_STD
    return found.mean, found.std


@contextmanager
def read_once() -> Iterator[None]:
    """Within it, sources of the same data settings share what was read: a set is read once for many trainings."""
    global _shared
    before, _shared = _shared, {}
    try:
        yield
    finally:
        _shared = before


class _Data(NamedTuple):
    """A data set as it is trained on, the pairs to verify, and the user's images that it was made of."""

    dataset: Any
    pairs: data.Pairs | None = None
    own: data.OwnImages | None = None


_shared: dict[str, _Data] | None = None
_KEPT = 2  # sets that are kept in memory for the next training


def _read(config: DataConfig, seed: int, rank: int) -> _Data:
    """Read a set and prepare it: small enough images of the user are decoded, classes held out, pixels averaged."""
    options: dict[str, Any] = {"points": config.points} if config.name == "modelnet40" else {}
    if config.name == "folder":
        rules = ("split", "held_out", "split_seed", "table", "unreadable")
        options |= {name: getattr(config, name) for name in rules}
    if config.imbalance is not None:
        options |= {"imbalance": config.imbalance, "seed": seed}
    names = ("name", "root", "batch_size", "validate", "shrink", "image_size", "resident")
    how = repr([*(getattr(config, name) for name in names), options])
    if _shared is not None and how in _shared:
        return _shared[how]

    def load(**more: Any) -> Any:
        return data.load(config.name, config.root, progress=rank == 0, **options, **more)

    found = _prepared(load(), config, load)
    if _shared is not None:
        _shared[how] = found
        while len(_shared) > _KEPT:
            del _shared[next(iter(_shared))]
    return found


def _prepared(dataset: Any, config: DataConfig, load: Callable[..., Any]) -> _Data:
    if not isinstance(dataset, data.Dataset | data.Faces):
        _check_applied(dataset, config)
    if isinstance(dataset, data.OwnImages):
        if config.batch_size > len(dataset.train):
            raise ValueError(
                f"data.batch_size={config.batch_size} is more than the {len(dataset.train)} images to train on: give "
                f"--data.batch-size {len(dataset.train)} or less"
            )
        if dataset.bytes_at(config.image_size) <= config.resident * 2**30:
            try:
                return _Data(dataset.resident(config.image_size), own=dataset)
            except ValueError:  # a file that is damaged behind its header: find all of them, to skip or refuse them
                dataset = load(check="full")
                return _Data(dataset.resident(config.image_size), own=dataset)
    pairs = None
    if isinstance(dataset, data.Faces):
        pairs = dataset.test_pairs.within(dataset.test_index)
        dataset = dataset.open_set
    if isinstance(dataset, data.Dataset):
        if config.validate:
            dataset, pairs = _validation(dataset, pairs)
        dataset = dataset.shrunk(config.shrink)
    return _Data(dataset, pairs)


def _check_applied(dataset: Any, config: DataConfig) -> None:
    """Raise ValueError for a setting that sets of this kind would be used without."""
    kind = f"{config.name} is a {type(dataset).__name__}: leave it out"
    if config.shrink > 1:
        raise ValueError(f"data.shrink={config.shrink} is for a set of images of one size, and {kind}")
    if config.validate and not isinstance(dataset, data.Graph):
        raise ValueError(f"data.validate=True is for an open set such as lfw and omniglot, or a graph, and {kind}")


def _validation(dataset: data.Dataset, pairs: data.Pairs | None) -> tuple[data.Dataset, data.Pairs | None]:
    """Every fifth class of the training split, drawn once for all seeds, in the place of the test split's classes.

    Official pairs give way to as many of the held-out classes.
    """
    train = dataset.train
    if train.classes == dataset.test.classes:
        raise ValueError(
            f"data.validate holds out training classes, but {dataset.name} has the same classes for training and "
            "test: leave it out"
        )
    held = torch.zeros(len(train.classes), dtype=torch.bool, device="cpu")
    held[torch.randperm(len(held), generator=torch.Generator().manual_seed(0), device="cpu")[::5]] = True
    parts = []
    for chosen in (~held, held):
        kept = train.subset(chosen[train.labels])
        names = tuple(name for name, keep in zip(train.classes, chosen.tolist(), strict=True) if keep)
        parts.append(replace(kept, labels=chosen.long().cumsum(0)[kept.labels] - 1, classes=names))
    new = None if pairs is None else data.make_pairs(parts[1].labels, 10, len(pairs) // 20)
    return data.Dataset(dataset.name, *parts), new
