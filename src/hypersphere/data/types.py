"""What a data set is once read: tensors, class names and where one split ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from .._core.checks import check_count

Device = torch.device | str


class Movable:
    """A frozen dataclass whose tensors move together."""

    def to(self, device: Device) -> Self:
        """Move the tensors to a device.

        Args:
            device: device to which every tensor is moved.

        Returns:
            A copy with its tensors on that device.
        """
        return self._with_each(lambda part: part.to(device))

    def _with_each(self, change: Callable[[Any], Any]) -> Self:
        """The same with every tensor changed, those of its parts and of further columns, too."""
        changed: dict[str, Any] = {}
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if isinstance(value, Tensor | Movable):
                changed[one.name] = change(value)
            elif isinstance(value, Mapping):
                changed[one.name] = {name: change(column) for name, column in value.items()}
        return replace(self, **changed)  # type: ignore[type-var]


class _Labelled(Movable):
    """Samples, their labels and the names of the classes."""

    labels: Tensor
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def counts(self) -> Tensor:
        """Number of samples of each class, ``(num_classes,)``."""
        return torch.bincount(self.labels, minlength=len(self.classes))

    def subset(self, index: Tensor) -> Self:
        """Select samples.

        Args:
            index: indices of the samples to keep, or a boolean mask over all samples.

        Returns:
            The samples at ``index``, in that order; the classes stay.
        """
        return self._with_each(lambda column: column[index])


class Splits:
    """A training and a test split."""

    train: Any

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names of the training split; open sets such as Omniglot have others in ``test.classes``."""
        names: tuple[str, ...] = self.train.classes
        return names

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)


@dataclass(frozen=True, eq=False)
class Split(_Labelled):
    """Images and their labels.

    Attributes:
        images: the pixels, ``(N, C, H, W)`` uint8, channels first.
        labels: ``(N,)`` int64, in ``range(len(classes))``.
        classes: Names of the classes, in the order of their indices.
        extra: Further columns of length N by name, e.g. CIFAR-100's ``"coarse"`` labels.

    Raises:
        ValueError: If ``images`` is not uint8 (N, C, H, W), or the labels do not fit the images or the classes.

    Example:
        >>> images, labels = torch.zeros(4, 3, 8, 8, dtype=torch.uint8), torch.tensor([0, 1, 0, 1])
        >>> split = hs.data.Split(images, labels, ("cat", "dog"))
        >>> len(split.subset(split.labels == 1).labels)
        2
    """

    images: Tensor
    labels: Tensor
    classes: tuple[str, ...]
    extra: Mapping[str, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_tensors(images=self.images, labels=self.labels)
        if self.images.dtype != torch.uint8 or self.images.dim() != 4:
            raise ValueError(
                f"images must be uint8 (N, C, H, W), not {self.images.dtype} {tuple(self.images.shape)}: "
                "loaders normalise on the device"
            )
        _check_columns(len(self.images), self.labels, self.classes, self.extra)

    def __getitem__(self, index: Any) -> tuple[Tensor, Tensor]:
        """A sample and its label; a ``DataLoader`` of torch takes them from here."""
        return self.images[index], self.labels[index]

    def __repr__(self) -> str:
        return f"Split({len(self)} images {tuple(self.images.shape[1:])}, {len(self.classes)} classes)"

    @property
    def inputs(self) -> Tensor:
        """The inputs of a network: the images."""
        return self.images

    def shrunk(self, factor: int) -> Split:
        """Average blocks of pixels.

        Args:
            factor: every ``factor`` × ``factor`` pixels become one, rounded; 1 changes nothing.

        Returns:
            A copy of the split with smaller images.
        """
        check_count("factor", factor)
        height, width = self.images.shape[2:]
        if height % factor or width % factor:
            raise ValueError(f"images of {height}×{width} pixels cannot be shrunk by {factor}: take a divisor of both")
        if factor == 1:
            return self
        small = [avg_pool2d(part.float(), factor).round().to(torch.uint8) for part in self.images.split(4096)]
        return replace(self, images=torch.cat(small) if small else self.images)


@dataclass(frozen=True, eq=False)
class Dataset(Splits, Movable):
    """A named image set.

    Attributes:
        name: Name of the data set, as in :func:`hypersphere.data.load`.
        train: The split to train on, whose statistics ``mean`` and ``std`` describe.
        test: The split to evaluate on, which augmentation never changes.

    Example:
        >>> digits = hs.data.load("digits")
        >>> digits.train.images.shape[1:], digits.num_classes
        (torch.Size([1, 8, 8]), 10)
    """

    name: str
    train: Split
    test: Split

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width of one image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        return pixel_moments(self.train.images)

    @property
    def mean(self) -> tuple[float, ...]:
        """Mean of each channel of the training images, pixels in [0, 1]."""
        return tuple(self._moments[0].tolist())

    @property
    def std(self) -> tuple[float, ...]:
        """Standard deviation of each channel of the training images, pixels in [0, 1]."""
        return tuple(self._moments[1].tolist())

    def shrunk(self, factor: int) -> Dataset:
        """Average blocks of pixels.

        Args:
            factor: every ``factor`` × ``factor`` pixels become one; 1 changes nothing.

        Returns:
            A copy of the set with smaller images.
        """
        return replace(self, train=self.train.shrunk(factor), test=self.test.shrunk(factor))


def pixel_moments(images: Tensor) -> tuple[Tensor, Tensor]:
    """Exact mean and standard deviation of each channel, pixels in [0, 1], float64: from a histogram of the bytes."""
    levels = torch.arange(256, dtype=torch.float64, device="cpu") / 255
    rows = [torch.bincount(images[:, c].reshape(-1), minlength=256) for c in range(images.shape[1])]
    share = torch.stack(rows).cpu().double()
    share = share / share.sum(1, keepdim=True)
    mean = share @ levels
    return mean, (share @ levels.square() - mean.square()).clamp_min(0).sqrt()


@dataclass(frozen=True, eq=False)
class CloudSplit(_Labelled):
    """Point clouds and their labels.

    Attributes:
        points: coordinates of the points, ``(N, P, 3)`` float32.
        labels: ``(N,)`` int64, in ``range(len(classes))``.
        classes: Names of the classes, in the order of their indices.

    Raises:
        ValueError: If ``points`` is not (N, P, 3), or the labels do not fit the points or the classes.

    Example:
        >>> split = hs.data.CloudSplit(torch.rand(4, 16, 3), torch.tensor([0, 1, 0, 1]), ("chair", "table"))
        >>> split.subset(split.labels == 1).points.shape
        torch.Size([2, 16, 3])
    """

    points: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_tensors(points=self.points, labels=self.labels)
        if not self.points.is_floating_point() or self.points.dim() != 3 or self.points.shape[2] != 3:
            raise ValueError(f"points must be float (N, P, 3), not {self.points.dtype} {tuple(self.points.shape)}")
        _check_columns(len(self.points), self.labels, self.classes, {})

    def __getitem__(self, index: Any) -> tuple[Tensor, Tensor]:
        """A sample and its label; a ``DataLoader`` of torch takes them from here."""
        return self.points[index], self.labels[index]

    def __repr__(self) -> str:
        return f"CloudSplit({len(self)} clouds of {self.points.shape[1]} points, {len(self.classes)} classes)"

    @property
    def inputs(self) -> Tensor:
        """The inputs of a network: the points."""
        return self.points


@dataclass(frozen=True, eq=False)
class PointClouds(Splits, Movable):
    """A named set of point clouds.

    Attributes:
        name: Name of the data set, as in :func:`hypersphere.data.load`.
        train: The split to train on, whose statistics ``mean`` and ``std`` describe.
        test: The split to evaluate on, which augmentation never changes.

    Example:
        >>> split = hs.data.CloudSplit(torch.rand(4, 16, 3), torch.tensor([0, 1, 0, 1]), ("chair", "table"))
        >>> hs.data.PointClouds("mine", split, split).num_classes
        2
    """

    name: str
    train: CloudSplit
    test: CloudSplit


@dataclass(frozen=True, eq=False)
class Graph(Movable):
    """One graph with labelled nodes.

    Attributes:
        name: Name of the data set, as in :func:`hypersphere.data.load`.
        features: features of the nodes as published, ``(N, F)`` float32.
        edges: ``(2, E)`` int64, each undirected edge in both directions, without duplicates and self-loops, sorted.
        labels: Class index of each node, ``(N,)``.
        train: Indices of the nodes whose labels training sees.
        val: Indices of the nodes to choose settings on.
        test: Indices of the nodes to evaluate on.
        classes: Names of the classes, in the order of their indices.

    Example:
        >>> node = torch.tensor([0])
        >>> edges = torch.tensor([[0, 1], [1, 0]])
        >>> graph = hs.data.Graph("pair", torch.ones(2, 3), edges, torch.tensor([0, 1]), node, node, node, ("a", "b"))
        >>> graph.adjacency().to_dense()
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """

    name: str
    features: Tensor
    edges: Tensor
    labels: Tensor
    train: Tensor
    val: Tensor
    test: Tensor
    classes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}, {len(self)} nodes, {self.edges.shape[1] // 2} edges, "
            f"{self.features.shape[1]} features, {len(self.classes)} classes)"
        )

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    def normalized_features(self) -> Tensor:
        """Divide the features of each node by their sum, the usual input of a GCN.

        Returns:
            The normalised features ``(N, F)``; rows of zeros stay zero.
        """
        total = self.features.sum(1, keepdim=True)
        return torch.where(total == 0, 0.0, self.features / torch.where(total == 0, 1.0, total))

    def adjacency(self) -> Tensor:
        """Compute ``D^-1/2 (A + I) D^-1/2`` with ``D = diag(rowsum(A + I))``.

        Returns:
            The normalised adjacency, a coalesced sparse ``(N, N)`` float32 matrix.
        """
        nodes = torch.arange(len(self), device=self.edges.device)
        source, target = torch.cat([self.edges, nodes.expand(2, -1)], 1)
        scale = torch.bincount(source, minlength=len(self)).float().rsqrt()
        return torch.sparse_coo_tensor(
            torch.stack([source, target]),
            scale[source] * scale[target],
            (len(self), len(self)),
            check_invariants=True,
            device=self.edges.device,
        ).coalesce()


def _check_tensors(**columns: object) -> None:
    for name, column in columns.items():
        if not isinstance(column, Tensor):
            raise TypeError(f"{name} must be a tensor, not {type(column).__name__}: torch.as_tensor({name}) makes one")


def _check_columns(length: int, labels: Tensor, classes: tuple[str, ...], extra: Mapping[str, Tensor]) -> None:
    if labels.dtype != torch.int64 or labels.shape != (length,):
        raise ValueError(f"labels must be int64 ({length},), not {labels.dtype} {tuple(labels.shape)}")
    if length and not labels.is_meta and not 0 <= int(labels.min()) <= int(labels.max()) < len(classes):
        raise ValueError(
            f"labels run from {int(labels.min())} to {int(labels.max())}, but there are {len(classes)} classes"
        )
    for name, column in extra.items():
        if len(column) != length:
            raise ValueError(f"extra[{name!r}] has {len(column)} rows for {length} samples")
