"""Evaluation on another set than that of training: LFW, YouTube Faces, MegaFace, streamed from disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import attacks, data
from ..config import Config, DataConfig
from ..data.images import decode_all
from ..runs import Facts, Team
from .resident import Resident
from .source import IMAGENET_MEAN, IMAGENET_STD, Batch, Source


class Elsewhere:
    """Batches of one set to learn from, the faces of another as its test split.

    ``videos`` says who is on each video, where test samples are frames whose labels number the videos; ``pairs`` are
    pairs of videos then. ``distractors`` are faces of people who are not in the test split.
    """

    open_set = True

    def __init__(
        self,
        trained: Source | Facts,
        images: FaceImages,
        pairs: data.Pairs | None = None,
        videos: Tensor | None = None,
        distractors: FaceImages | None = None,
    ) -> None:
        self._trained = None if isinstance(trained, Facts) else trained
        self.facts = trained if isinstance(trained, Facts) else trained.facts
        self.resident = self._trained is not None and self._trained.resident
        self.own = None if self._trained is None else self._trained.own
        self.frequent = 0.0 if self._trained is None else self._trained.frequent
        self.images, self.pairs, self.videos, self.distractors = images, pairs, videos, distractors
        self.test_classes = images.folder.classes
        self.pixels: attacks.Pixels | None = images.pixels

    @property
    def pictures(self) -> Tensor | None:
        """Where there are pairs of images, which are few."""
        if self.pairs is None or self.videos is not None:
            return None
        return decode_all([Path(file) for file in self.images.folder.files])

    def seek(self, step: int) -> int:
        return self._training().seek(step)

    def batch(self, position: Tensor) -> Batch:
        return self._training().batch(position)

    def test(self) -> Iterator[Batch]:
        return self.images.batches()

    def _training(self) -> Source:
        if self._trained is None:
            raise ValueError("this source is for evaluation only: it was made without training data")
        return self._trained


class FaceImages:
    """Images of a folder as they are, in order, as inputs of a network; each process gets its rows of a batch.

    Rows that the last batch lacks have label -100, so that processes stay together.
    """

    def __init__(self, name: str, folder: data.ImageFolder, config: DataConfig, facts: Facts, team: Team) -> None:
        self.folder, self.kind, self.team = folder, config.normalize, team
        size = min(config.eval_batch_size, len(folder))
        size = -(-size // team.world) * team.world
        self.loader = data.FolderLoader(
            folder, size, train=False, size=None, workers=config.decoders, rank=team.rank, world=team.world
        )
        if (facts.in_channels, facts.image_size) != (3, self.loader.shape):
            taken = facts.image_size and f"{facts.in_channels}×{facts.image_size[0]}×{facts.image_size[1]}"
            raise ValueError(
                f"{folder.files[0]} is 3×{self.loader.shape[0]}×{self.loader.shape[1]}, but the network takes "
                f"{taken or 'no images'}: align and crop the faces of {name} like those of training"
            )
        self.pixels = attacks.pixels(self.kind, mean=IMAGENET_MEAN, std=IMAGENET_STD, device=team.device)

    def batches(self) -> Iterator[Batch]:
        """All images once."""
        for images, labels in self.loader.filled():
            yield self._ready(images, labels)

    def _ready(self, images: Tensor, labels: Tensor) -> Batch:
        images = images.to(self.team.device, non_blocking=True)
        inputs = data.normalize(images, self.kind, mean=IMAGENET_MEAN, std=IMAGENET_STD)
        return (inputs,), labels.to(self.team.device, non_blocking=True)


def on_faces(name: str, trained: Source | Facts, config: Config, team: Team) -> Elsewhere:
    """The set ``name`` as the test split of a network that was trained on another."""
    facts = trained if isinstance(trained, Facts) else trained.facts
    if config.data.normalize in data.MEASURED and isinstance(trained, Resident):
        raise ValueError(
            f"data.normalize={config.data.normalize!r} uses training statistics: evaluate with 'symmetric'"
        )
    rule = config.evaluation
    dataset: Any = data.load(name, rule.root or config.data.root, progress=team.rank == 0)

    def images(folder: data.ImageFolder) -> FaceImages:
        return FaceImages(name, folder, config.data, facts, team)

    if isinstance(dataset, data.Faces):
        folder, pairs = _paired(dataset)
        return Elsewhere(trained, images(folder), pairs)
    if isinstance(dataset, data.Videos):
        thin = dataset if rule.frames is None else dataset.thinned(rule.frames)
        return Elsewhere(trained, images(thin.frames), thin.pairs, videos=thin.labels)
    others = dataset.distractors
    if rule.distractors is not None:
        count = rule.distractors
        others = replace(others, files=others.files[:count], labels=others.labels[:count])
    return Elsewhere(trained, images(dataset.probes), distractors=images(others))


def _paired(faces: data.Faces) -> tuple[data.ImageFolder, data.Pairs]:
    """The images that View 2 names, and its pairs as positions among them."""
    index = torch.cat([faces.pairs.left, faces.pairs.right]).unique()
    members, labels = faces.labels[index].unique(return_inverse=True)
    files = tuple(str(faces.files[place]) for place in index.tolist())
    names = tuple(faces.people[member] for member in members.tolist())
    root = faces.files[0].parent.parent
    return data.ImageFolder(root, files, labels, names), faces.pairs.within(index)
