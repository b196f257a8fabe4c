"""What a network is fed: the first test samples of its run, and how bytes become numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from .. import data
from .._core.pixels import MEASURED, Normalized
from .._core.registries import DATASETS
from ..config import Config, DataConfig, with_values
from ..data.augment import affine
from ..data.loader import IGNORE
from ..data.types import pixel_moments
from ..models import normalize_adjacency
from ..runs import Facts
from ..runs.logger import UNNAMED
from ..sources import Resident, Source, evaluation_source


class Normalization(Normalized):
    """input = bytes·scale + shift; ``mean`` and ``std`` of the training pixels in [0, 1] where they count."""

    __slots__ = ()

    @property
    def known(self) -> bool:
        return self.kind not in MEASURED or self.mean is not None

    @property
    def affine(self) -> tuple[Tensor, Tensor]:
        return affine(self.kind, self.mean, self.std)

    @property
    def formula(self) -> str:
        """In words."""
        if self.kind == "symmetric":
            return "(byte − 127.5) / 128"
        if self.kind == "unit":
            return "byte / 255"
        if not self.known:
            return "(byte / 255 − mean) / std for each channel, of the training images, which were not found here"
        return f"(byte / 255 − mean) / std for each channel, mean = {_numbers(self.mean)}, std = {_numbers(self.std)}"

    def apply(self, images: Tensor) -> Tensor:
        scale, shift = self.affine
        return torch.addcmul(shift.view(-1, 1, 1), images.float(), scale.view(-1, 1, 1))

    def undo(self, inputs: Tensor) -> Tensor:
        """The bytes of images that were normalised."""
        scale, shift = (part.view(-1, 1, 1) for part in self.affine)
        return ((inputs - shift) / scale).round().clamp(0, 255).to(torch.uint8)


@dataclass(frozen=True, eq=False)
class Inputs:
    """Samples as the loader gives them, one row each; of a graph its dense features and Â.

    Args:
        kind: ``"images"``, ``"points"``, ``"graph"``, or ``"own"`` for rows of a loop, of which only the
            shape is known.
        tensors: what the network takes.
        origin: in words, for the reader of a report.
        real: whether they are samples of the run's data.
        normalization: of images.
        raw: the images are bytes still.
    """

    kind: str
    tensors: tuple[Tensor, ...]
    origin: str
    real: bool
    normalization: Normalization | None = None
    raw: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return ("features", "adjacency") if self.kind == "graph" else ("input",)

    @property
    def axis(self) -> str:
        """What the first dimension counts, which every export leaves free."""
        return "nodes" if self.kind == "graph" else "batch"

    @property
    def dynamic_shapes(self) -> tuple[dict[int, Any], ...]:
        count = torch.export.Dim(self.axis, min=1)
        return ({0: count}, {0: count, 1: count}) if self.kind == "graph" else ({0: count},)

    def first(self, count: int) -> tuple[Tensor, ...]:
        """The first samples; of a graph the first nodes and the edges among them."""
        if self.kind == "graph":
            return self.tensors[0][:count], self.tensors[1][:count, :count].contiguous()
        return (self.tensors[0][:count],)

    def batches(self) -> Iterator[tuple[Tensor, ...]]:
        """Batches of 1, of 5 and of all."""
        total = len(self.tensors[0])
        for count in sorted({1, min(5, total), total}):
            yield self.first(count)

    def normalized(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """What the network itself takes: the batch, bytes made numbers."""
        if not self.raw or self.normalization is None:
            return batch
        return (self.normalization.apply(batch[0]),)

    def bytes(self) -> Inputs:
        """The same images before normalisation."""
        if self.normalization is None:
            what = {"points": "point clouds have", "graph": "graphs have"}.get(self.kind, "a loop's own inputs have")
            raise ValueError(f"--with-normalization is for images: {what} no bytes to normalise. Leave it out")
        if not self.normalization.known:
            raise ValueError(
                "--with-normalization needs mean and std of the training images, and the data were not found: "
                "give their folder with --root"
            )
        return replace(self, tensors=(self.normalization.undo(self.tensors[0]),), raw=True)


def find_inputs(config: Config, facts: Facts, seed: int, root: str | None, count: int) -> Inputs:
    """The first ``count`` test samples; random ones where the data are not on this machine (nothing is downloaded)."""
    settings = with_values(config.data, {"workers": 0, **({} if root is None else {"root": root})})
    rule = replace(config.evaluation, root=root or config.evaluation.root)
    name = rule.data or settings.name
    if name == UNNAMED:
        return _own(facts, count)
    listed = {"table": settings.table} if name == "folder" else {}
    if not data.available(name, (rule.root if rule.data else None) or settings.root, **listed):
        return _random(config.data, facts, count)
    source = evaluation_source(replace(config, data=settings, evaluation=rule), facts, seed, torch.device("cpu"))
    if facts.image_size is None and facts.in_features is None:  # a loop that did not say: its data do
        facts = replace(source.facts, num_classes=facts.num_classes)
    flat = facts.is_row_of(source.facts)
    if _sizes(source.facts) != _sizes(facts) and not flat:
        raise ValueError(
            f"the data in {settings.root or 'the data folder'} are not those of the run: "
            f"{_sizes(source.facts)}, and the network was made for {_sizes(facts)}"
        )
    tensors = _first(source, count)
    if flat:  # how the loop made numbers of the pixels is not known, and it need not be for a comparison
        origin = f"the first {len(tensors[0])} test images of {name}, each as one row of {facts.in_features} numbers"
        return Inputs("own", (tensors[0].flatten(1),), origin, True)
    kind = _kind(facts)
    what = {"images": "test images", "points": "test clouds", "graph": "nodes of the graph"}[kind]
    origin = f"the first {len(tensors[0])} {what} of {name}"
    return Inputs(kind, tensors, origin, True, _normalization(settings, facts, source) if kind == "images" else None)


def _first(source: Source, count: int) -> tuple[Tensor, ...]:
    parts: list[Tensor] = []
    for inputs, labels in source.test():
        if len(inputs) == 2:
            features, adjacency = (_dense(part, count) for part in inputs)
            return features, adjacency[:, :count].clone()
        parts.append(inputs[0][labels != IGNORE])
        if sum(map(len, parts)) >= count:
            break
    if not parts or not sum(map(len, parts)):
        raise ValueError("the test split is empty: there is nothing to check the export with")
    return (torch.cat(parts)[:count].clone(),)


def _dense(matrix: Tensor, count: int) -> Tensor:
    """The first rows, dense, without making the whole matrix dense."""
    if matrix.layout == torch.strided:
        return matrix[:count].clone()
    return matrix.to_sparse_coo().coalesce().index_select(0, torch.arange(min(count, len(matrix)))).to_dense()


def _normalization(config: DataConfig, facts: Facts, source: Source | None = None) -> Normalization:
    """That of the run; of older runs, which did not write the moments down, from the training images."""
    mean, std = facts.mean, facts.std
    if config.normalize in MEASURED and mean is None and isinstance(source, Resident):
        mean, std = (tuple(part.tolist()) for part in pixel_moments(source.loader.inputs))
    if config.normalize not in MEASURED or mean is None:
        return Normalization(config.normalize)
    return Normalization("standard", mean, std if config.normalize == "standard" else (1.0,) * len(mean))


def _random(config: DataConfig, facts: Facts, count: int) -> Inputs:
    generator = torch.Generator().manual_seed(0)
    kind = _kind(facts)
    origin = f"{count} random inputs, because {config.name} was not found here (give its folder with --root)"
    if kind == "graph" and getattr(DATASETS.get(config.name), "of", "graph") != "graph":
        rows = torch.randn(count, facts.in_features or 1, generator=generator, device="cpu")
        return Inputs("own", (rows,), origin, False)
    if kind == "images":
        channels, (height, width) = facts.in_channels or 1, facts.image_size or (1, 1)
        shape = count, channels, height, width
        images = torch.randint(256, shape, generator=generator, device="cpu", dtype=torch.uint8)
        known = _normalization(config, facts)
        like = known if known.known else Normalization("symmetric")
        return Inputs(kind, (like.apply(images),), origin, False, known)
    if kind == "points":
        clouds = torch.rand(count, config.points, 3, generator=generator, device="cpu") - 0.5
        return Inputs(kind, (clouds,), origin, False)
    features = torch.rand(count, facts.in_features or 1, generator=generator, device="cpu")
    edges = (torch.rand(count, count, generator=generator, device="cpu") < 0.1).float()
    both = (features / features.sum(1, keepdim=True), normalize_adjacency(torch.maximum(edges, edges.T)))
    return Inputs(kind, both, origin, False)


def _own(facts: Facts, count: int) -> Inputs:
    """Of a loop that named no data: random numbers of the shape that it told."""
    if facts.image_size is None and facts.in_features is None:
        raise ValueError(
            "the shape of an input is not known: give Logger image_size= and in_channels= for images, or in_features="
        )
    shape = (facts.in_features,) if facts.image_size is None else (facts.in_channels or 3, *facts.image_size)
    numbers = torch.randn(count, *shape, generator=torch.Generator().manual_seed(0), device="cpu")
    return Inputs("own", (numbers,), f"{count} random inputs, because the loop that trained it named no data", False)


def _kind(facts: Facts) -> str:
    if facts.image_size is not None:
        return "images"
    return "points" if facts.in_features is None else "graph"


def _sizes(facts: Facts) -> str:
    shape = ""
    if facts.image_size is not None:
        shape = f", {facts.in_channels}×{facts.image_size[0]}×{facts.image_size[1]} pixels"
    elif facts.in_features is not None:
        shape = f", {facts.in_features} features"
    return f"{facts.num_classes} classes{shape}"


def _numbers(values: tuple[float, ...] | None) -> str:
    return "[" + ", ".join(f"{value:.8g}" for value in values or ()) + "]"
