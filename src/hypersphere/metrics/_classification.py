"""Closed-set classification: accuracy, errors of each class, confusion, and confusion by cosine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .._core.arrays import takes_arrays
from .._core.checks import check_count
from .._core.modes import without_autocast
from .._core.sphere import upcast
from .._core.streams import Shown
from ._inputs import check_dimensions, check_features, check_labels, class_directions, directions, rows_within


@dataclass(frozen=True, eq=False)
class ClassificationResult(Shown):
    """What :func:`classification` gives; rates are fractions in [0, 1].

    Attributes:
        accuracy: Share of samples whose class comes first.
        top5: Share of samples whose class is among the first five.
        class_errors: Error of each class, (C,); NaN for classes without samples.
        counts: Number of samples of each class, (C,).
        confusion: Number of samples of class i (row) that were classified as class j (column), (C, C).
        ranks: Rank of the right class of each sample, from 1, (n,).
        classes: Names of the classes, in the order of their indices.

    Example:
        >>> hs.metrics.classification([[2.0, 1.0], [0.0, 3.0]], [0, 0]).accuracy
        0.5
    """

    accuracy: float
    top5: float
    class_errors: Tensor
    counts: Tensor
    confusion: Tensor
    ranks: Tensor
    classes: tuple[str, ...]

    def top(self, k: int) -> float:
        """Compute the share of samples whose class is among the first ``k``.

        Args:
            k: number of guesses per sample, ≥ 1: the sample counts if its class is among the k largest logits.

        Returns:
            The top-k accuracy, a fraction of all samples in [0, 1].
        """
        check_count("k", k)
        return float((self.ranks <= k).double().mean())

    @property
    def balanced_accuracy(self) -> float:
        """Mean accuracy of the classes that occur."""
        return 1 - float(self.class_errors.nanmean())

    def worst(self, count: int = 5) -> list[tuple[str, float, int]]:
        """Return the classes with the highest error.

        Args:
            count: how many classes to list, the ones with most errors first.

        Returns:
            Name, error and number of samples of each of these classes, worst first.
        """
        order = self.class_errors.nan_to_num(-1.0).argsort(descending=True, stable=True)
        chosen = [int(i) for i in order if self.counts[i]][: check_count("count", count)]
        return [(self.classes[i], float(self.class_errors[i]), int(self.counts[i])) for i in chosen]

    def __repr__(self) -> str:
        return (
            f"ClassificationResult(accuracy={self.accuracy:.4f}, top5={self.top5:.4f}, {len(self.ranks)} samples, "
            f"{len(self.classes)} classes)"
        )


@takes_arrays("logits", labels=("labels",))
@torch.no_grad()
def classification(logits: Tensor, labels: Tensor, classes: Sequence[str] | None = None) -> ClassificationResult:
    """Compare logits, of any scale, with labels.

    Among equal logits the lower class number comes first, as for ``argmax``.

    Args:
        logits: scores of the classes, (n, C).
        labels: class index of each sample, (n,).
        classes: C names for the tables of the result; None uses the class indices.

    Returns:
        Accuracy, errors by class, confusion matrix and ranks.

    Raises:
        ValueError: If ``logits`` is empty or not finite, a label is out of range, or ``classes`` has another length.

    Example:
        >>> result = hs.metrics.classification([[2.0, 1.0], [0.0, 3.0], [0.0, 1.0]], [0, 1, 0])
        >>> round(result.accuracy, 3), result.confusion.tolist()
        (0.667, [[1, 1], [0, 1]])
    """
    x = check_features("logits", logits)
    target = check_labels("labels", labels, len(x)).to(x.device)
    width = x.shape[1]
    if int(target.min()) < 0 or int(target.max()) >= width:
        raise ValueError(f"labels reach from {int(target.min())} to {int(target.max())}: logits have {width} classes")
    names = tuple(map(str, range(width) if classes is None else classes))
    if len(names) != width:
        raise ValueError(f"classes has {len(names)} names for logits of {width} classes")
    rank = torch.cat(
        [_rank(a, y) for a, y in zip(x.split(rows_within(width)), target.split(rows_within(width)), strict=True)]
    ).cpu()
    pairs = (target * width + x.argmax(1)).cpu()
    confusion = torch.bincount(pairs, minlength=width * width).view(width, width)
    counts = confusion.sum(1)
    return ClassificationResult(
        accuracy=float((rank == 1).double().mean()),
        top5=float((rank <= 5).double().mean()),
        class_errors=1 - confusion.diagonal() / counts.double(),
        counts=counts,
        confusion=confusion,
        ranks=rank,
        classes=names,
    )


@takes_arrays("features", "weight", labels=("labels",))
@torch.no_grad()
def cosine_confusion(features: Tensor, labels: Tensor, weight: Tensor | None = None) -> Tensor:
    """Entry (i, j) is mean_{x of class i} cos⟨x, w_j⟩, the mean cosine of class i with the vector of class j.

    The mean cosine is the product of the mean direction with the class's direction, so that nothing of size n × C is
    formed.

    Args:
        features: features (n, d), one sample per row; their lengths do not matter.
        labels: class index of each sample, (n,).
        weight: class vectors (C, d), e.g. ``head.weight``; None: the mean feature of each class, with C the largest
            label + 1.

    Returns:
        (C, C); rows (and, without ``weight``, columns) of classes that do not occur are NaN.

    Raises:
        ValueError: If the dimensions of ``features`` and ``weight`` differ, or a label names no class vector.

    Example:
        >>> hs.metrics.cosine_confusion(torch.eye(2), [0, 1])
        tensor([[1., 0.],
                [0., 1.]])
    """
    x = check_features("features", features)
    target = check_labels("labels", labels, len(x)).to(x.device)
    if weight is not None:
        check_dimensions("weight", check_features("weight", weight), "features", x)
    count = int(target.max()) + 1 if weight is None else len(weight)
    if int(target.min()) < 0 or int(target.max()) >= count:
        raise ValueError(f"labels reach from {int(target.min())} to {int(target.max())}: weight has {count} classes")
    sizes = torch.bincount(target, minlength=count)
    sums = torch.zeros(count, x.shape[1], dtype=upcast(x).dtype, device=x.device)
    rows = sums.index_add_(0, target, directions(x)) / sizes[:, None]
    vectors = class_directions(x, target, count) if weight is None else directions(weight.detach()).to(rows)
    with without_autocast(x.device):
        cosines = rows @ vectors.mT
    return cosines if weight is not None else cosines.masked_fill_(sizes == 0, torch.nan)


def _rank(logits: Tensor, target: Tensor) -> Tensor:
    own = logits.gather(1, target[:, None])
    before = torch.arange(logits.shape[1], device=logits.device) < target[:, None]
    return 1 + ((logits > own) | ((logits == own) & before)).sum(1)
