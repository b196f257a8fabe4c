"""A network, the data it is evaluated on, the processes that share the work, and what the network says of the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from .._core.features import features_and_output, features_of, has_features
from .._core.modes import modes_kept
from .._core.output_layer import find_output_layer
from ..config import Config
from ..data.loader import IGNORE
from ..runs import Gan, Team
from ..sources import Batch, Elsewhere, Source


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a network computes for its test split, everything on the CPU.

    Args:
        labels: class index of each test sample, ``(N,)``.
        features: the embedding of each test sample, ``(N, d)`` float32.
        logits: ``(N, C)`` float32; None where the test classes are not those of training (open set).
        class_vectors: ``(C, d)`` of the head or the last linear layer; None if the network has none of that size.
        images: ``(N, channels, H, W)`` uint8; None where the data are not images in memory.
        classes: names of the test classes, by label.

    Example:
        >>> from hypersphere.evaluation import outputs_of
        >>> outputs = outputs_of(hs.runs.Run("runs/digits"))
        >>> outputs.logits.shape[1], outputs.classes[:2]
        (10, ('0', '1'))
    """

    labels: Tensor
    features: Tensor
    logits: Tensor | None
    class_vectors: Tensor | None
    images: Tensor | None
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)


def class_vectors(model: nn.Module, dim: int) -> Tensor | None:
    """Find the weight that turns features into logits.

    Args:
        model: a trained network with a classifier or a head.
        dim: length of its features; weights of another width are not class vectors.

    Returns:
        ``(C, dim)`` on the CPU, or None if there is none of that size, or a class has several (sub-centers).

    Example:
        >>> from hypersphere.evaluation import class_vectors
        >>> class_vectors(hs.load("runs/digits"), 64).shape
        torch.Size([10, 64])
    """
    head = getattr(model, "head", None)
    last = find_output_layer(model, head if isinstance(head, nn.Module) else None)
    weight = None if last is None else getattr(last[1], "weight", None)
    if last is not None and getattr(getattr(last[1], "owner", last[1]), "sub_centers", 1) > 1:
        return None
    if not isinstance(weight, Tensor) or weight.dim() != 2 or weight.shape[1] != dim:
        return None
    return weight.detach().float().cpu()


@dataclass(frozen=True)
class Candidate:
    """A trained network and its test split: what every measurement is given.

    Attributes:
        network: Inputs to logits, with ``features`` for the embedding.
        source: The data of the run: test split, shapes and normalisation.
        team: The processes that evaluate together; without torchrun there is one.
        config: The settings of the run, of which ``evaluation`` chooses folds, pairs and flips.
        rows: Whether the network takes each image as one row of numbers, as that of your own loop may.

    Example:
        >>> from hypersphere.evaluation import candidate_of
        >>> candidate = candidate_of(hs.runs.Run("runs/digits"))
        >>> features, labels = candidate.embedding()
        >>> features.shape[1]
        64
    """

    network: nn.Module
    source: Source
    team: Team
    config: Config
    rows: bool = False

    @property
    def of_images(self) -> nn.Module:
        """The network as it is called with the inputs of the source, also where it takes rows itself."""
        return nn.Sequential(nn.Flatten(), self.network) if self.rows else self.network

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Switch to evaluation mode without gradients; the modes of all modules are restored afterwards.

        Returns:
            A context manager, inside which the network is in evaluation mode.
        """
        with modes_kept(self.network), torch.no_grad():
            self.network.eval()
            yield

    def logits(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Compute the logits of a batch, at the precision of the training.

        Args:
            inputs: a batch as the network takes it: one tensor, or features and adjacency of a graph.

        Returns:
            The logits (N, num_classes) in float32.
        """
        self._check_classifier()
        with self._autocast():
            out: Tensor = self.network(*self._taken(inputs))
        return out.float()

    def features(self, inputs: tuple[Tensor, ...]) -> Tensor:
        """Compute the embedding of a batch, at the precision of the training.

        Args:
            inputs: a batch as the network takes it: one tensor, or features and adjacency of a graph.

        Returns:
            The features (N, feature_dim) in float32.
        """
        self._check_classifier()
        with self._autocast():
            out = features_of(self.network, *self._taken(inputs))
        return out.float()

    def embedding(self, flip: bool = False) -> tuple[Tensor, Tensor]:
        """Compute features of the whole test split, of all processes, in order.

        Args:
            flip: append the features of the mirrored images.

        Returns:
            Features and labels, on the CPU. The features of a video are the mean over its frames.
        """
        batches = self.embedded(self.source.test(), flip)
        if isinstance(self.source, Elsewhere) and self.source.videos is not None:
            return _means(batches, len(self.source.videos)), self.source.videos
        features, labels = zip(*batches, strict=True)
        return torch.cat(features), torch.cat(labels)

    def embedded(self, batches: Iterable[Batch], flip: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
        """Compute features batch by batch, of all processes.

        Args:
            batches: batches of inputs, each as the network takes it.
            flip: append the features of the mirrored images.

        Returns:
            Features and labels of each batch on the CPU, without ignored samples.
        """
        for inputs, labels in batches:
            features = self.features(inputs)
            if flip:
                features = torch.cat([features, self.features((inputs[0].flip(-1), *inputs[1:]))], 1)
            numbers, rows = self._gathered(labels, features)
            yield rows, numbers

    @cached_property
    @torch.no_grad()
    def outputs(self) -> Outputs:
        """What the network says of the test split, in float32; computed at the first time it is asked for."""
        self._check_classifier()
        rows = []
        for inputs, labels in self.source.test():
            taken = self._taken(inputs)
            if has_features(self.network):
                features, logits = features_of(self.network, *taken), self.network(*taken)
            else:
                features, logits = features_and_output(self.network, *taken)
            rows.append(self._gathered(labels, features.float(), logits.float()))
        if not rows:
            name = self.config.evaluation.data or self.config.data.name
            raise ValueError(f"the test split of {name} is empty: there is nothing to evaluate")
        numbers, embedding, scores = (torch.cat(column) for column in zip(*rows, strict=True))
        bad = ~embedding.isfinite().all(1)
        if bool(bad.any()):
            raise ValueError(
                f"the network gives features that are not finite, first for test sample {int(bad.nonzero()[0])}"
            )
        return Outputs(
            labels=numbers.long(),
            features=embedding,
            logits=None if self.source.open_set else scores,
            class_vectors=class_vectors(self.network, embedding.shape[1]),
            images=self.source.pictures,
            classes=self.source.test_classes,
        )

    def _taken(self, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """What the network is given of them."""
        return tuple(part.flatten(1) for part in inputs) if self.rows else inputs

    def _check_classifier(self) -> None:
        if isinstance(self.network, Gan):
            raise ValueError("this is a GAN: it has no features and classes, only what it generates can be evaluated")

    def _gathered(self, labels: Tensor, *columns: Tensor) -> tuple[Tensor, ...]:
        """Labels and columns of all processes, which hold consecutive rows of a batch; without what does not count."""
        numbers, *rows = (torch.cat(self.team.gather(part)) for part in (labels, *columns))
        return tuple(part[numbers != IGNORE] for part in (numbers, *rows))

    def _autocast(self) -> torch.autocast:
        half = self.config.run.precision == "bfloat16"
        return torch.autocast(self.team.device.type, torch.bfloat16, enabled=half)


def _means(batches: Iterable[tuple[Tensor, Tensor]], count: int) -> Tensor:
    """The mean feature of each label."""
    sums, counts = None, torch.zeros(count, dtype=torch.float64)
    for features, labels in batches:
        if sums is None:
            sums = torch.zeros(count, features.shape[1], dtype=torch.float64)
        sums.index_add_(0, labels, features.double())
        counts += torch.bincount(labels, minlength=count)
    if sums is None:
        raise ValueError("there are no frames to take the mean of")
    return (sums / counts[:, None]).float()
