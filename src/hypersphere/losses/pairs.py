"""Contrastive and triplet loss, comparisons of thesis Tables 2.5, 2.9, 2.10 and 5.10: samples against samples.

Both need batches that hold several samples of a class: ``data.Loader(per_class=...)``, ``--data.per-class``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from .._core.checks import check_choice, check_positive
from .._core.extremes import largest, smallest
from .._core.modes import without_autocast
from .._core.sphere import compute_dtype, unit, upcast
from ._inputs import check_features, check_head, check_labels, counted, reduce_losses
from .batch import BatchWide, Others, other_samples
from .center import Centers
from .head import ClassHead
from .joined import JoinedHead


class ContrastiveLoss(JoinedHead, BatchWide):
    """L = L_head + λ·mean_i ½·(mean_{j: y_j=y_i} d_ij² + mean_{j: y_j≠y_i} max(0, m − d_ij)²) (DeepID2, eq. 3).

    d_ij is the distance of two features of the batch. A sample without partners of one kind lacks that term. The thesis
    does not print λ, m or the choice of pairs. Here λ is DeepID2's 0.05, and m = 1 on normalised features is an angle
    of 60°. All pairs of a batch are used; pairs of one class and of different classes have equal weight.

    Args:
        head: any head of this package; in the thesis it is the softmax.
        weight: λ ≥ 0, the weight of the pairs.
        margin: m > 0, the distance from which different classes no longer repel.
        normalize: scale the features to length 1 first, so that m is an angle.

    Shape:
        - features: (..., in_features) of the head; labels: (...), class indices.
        - Output: scalar, or (...) with the head's ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Raises:
        TypeError: If ``head`` is not a head of :mod:`hypersphere.losses`.
        ValueError: If ``margin`` or ``weight`` is out of range.

    Example:
        >>> head = hs.losses.ContrastiveLoss(hs.losses.Softmax(64, 10))
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    def __init__(
        self, head: ClassHead | JoinedHead, weight: float = 0.05, margin: float = 1.0, normalize: bool = True
    ) -> None:
        super().__init__(head, weight)
        self.margin = check_positive("margin", margin)
        self.normalize = normalize

    def terms(self, x: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
        with without_autocast(x.device):
            others = other_samples(self, upcast(x), labels, counts, self.normalize)
            return 0.5 * (
                _mean(others.distance.square(), others.same)
                + _mean((self.margin - others.distance).clamp_min(0).square(), others.different)
            )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, margin={self.margin:g}, normalize={self.normalize}"


class TripletLoss(BatchWide):
    """L = mean_i mean_p max(0, ‖x̂_i − x̂_p‖² − ‖x̂_i − x̂_n‖² + α) (FaceNet, eq. 3), p of i's class, n of another.

    A sample without partners contributes 0. There are no class vectors to learn: at test time classes are ranked by the
    cosine to the class centres, which follow the normalised features in training mode (:class:`Centers`); ``weight``
    holds these centres.

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of centres in ``weight``.
        margin: α > 0, by how much the other class must be farther; FaceNet's is 0.2.
        mining: ``"semihard"`` takes for each pair (i, p) the nearest n that is farther than p, or the farthest n if
            there is none (FaceNet, sec. 3.2, within the batch); ``"hard"`` takes for each i the farthest p and the
            nearest n.
        rate: how fast the centres follow the features, in [0, 1].
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` over the samples.
        ignore_index: label of samples that are ignored.
        device: device on which the centres are created; None is torch's default device.
        dtype: floating-point type of the centres; None is torch's default.

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Raises:
        ValueError: If ``mining`` is unknown, ``margin`` is not positive, or a miner's result is passed.

    Example:
        >>> head = hs.losses.TripletLoss(64, 10)
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        margin: float = 0.2,
        mining: str = "semihard",
        *,
        rate: float = 0.5,
        reduction: str = "mean",
        ignore_index: int = -100,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.num_classes, self.reduction, self.ignore_index = check_head(
            in_features, num_classes, reduction, ignore_index
        )
        self.margin = check_positive("margin", margin)
        self.mining = check_choice("mining", mining, ("semihard", "hard"))
        self.centers = Centers(num_classes, in_features, rate, torch.empty(0, device=device, dtype=dtype))

    @property
    def weight(self) -> Tensor:
        """The class centres."""
        return self.centers.vectors

    def reset_parameters(self) -> None:
        """Set the class centres back to their initial values."""
        self.centers.reset_parameters()

    def forward(self, features: Tensor, labels: Tensor, indices_tuple: Sequence[Tensor] | None = None) -> Tensor:
        """Compute the loss of a batch.

        Args:
            features: features of the batch, (..., in_features), of any floating dtype.
            labels: class index of each sample, (...).
            indices_tuple: must be None: this loss chooses its own triplets.

        Returns:
            A scalar, or one loss per sample with ``reduction="none"``.
        """
        if indices_tuple is not None:
            raise ValueError("TripletLoss chooses its own triplets: pass mining=, not indices_tuple")
        check_features(features, self.in_features)
        flat, counts = check_labels(labels, features, self.num_classes, self.ignore_index)
        with without_autocast(features.device):
            x = counted(features.reshape(-1, self.in_features).to(self._dtype(features)), counts)
            others = other_samples(self, x, flat, counts, normalize=True)
            losses = self._semihard(others) if self.mining == "semihard" else self._hard(others)
            if self.training:
                self.centers.follow(*self.whole_batch(unit(x.detach()), torch.where(counts, flat, -1))[:2])
            return reduce_losses(losses, counts.to(losses.dtype), self.reduction, labels.shape)

    def logits(self, features: Tensor) -> Tensor:
        """Compute the cosine to each class centre.

        Args:
            features: features of the batch, (..., in_features).

        Returns:
            (..., num_classes); 0 for a class that was never seen.
        """
        check_features(features, self.in_features)
        with without_autocast(features.device):
            dtype = self._dtype(features)
            return unit(features.to(dtype)) @ unit(self.weight.to(dtype)).T

    @torch.no_grad()
    def predict(self, features: Tensor) -> Tensor:
        """Find the class with the closest centre.

        Args:
            features: features of the batch, (..., in_features).

        Returns:
            Class indices (...).
        """
        return self.logits(features).argmax(-1)

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """Compute :meth:`logits`, under the name that pytorch-metric-learning uses.

        Args:
            embeddings: features of the batch, (..., in_features).

        Returns:
            Logits (..., num_classes).
        """
        return self.logits(embeddings)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, num_classes={self.num_classes}, margin={self.margin:g}, "
            f"mining={self.mining!r}"
        )

    def _dtype(self, features: Tensor) -> torch.dtype:
        return torch.promote_types(compute_dtype(features.dtype), compute_dtype(self.weight.dtype))

    def _semihard(self, others: Others) -> Tensor:
        squares = others.distance.square()
        if squares.shape[1] == 0:
            return squares.sum(1)
        count = others.different.sum(1, keepdim=True)
        with torch.no_grad():
            ranked, order = squares.masked_fill(~others.different, math.inf).sort(dim=1)
            beyond = torch.searchsorted(ranked, squares.contiguous(), right=True)
            chosen = order.gather(1, torch.minimum(beyond, count - 1).clamp_min(0))
        losses = (squares - squares.gather(1, chosen) + self.margin).clamp_min(0)
        return _mean(losses, others.same & (count > 0))

    def _hard(self, others: Others) -> Tensor:
        squares = others.distance.square()
        if squares.shape[1] == 0:
            return squares.sum(1)
        farthest = largest(squares.masked_fill(~others.same, -1.0), 1)
        nearest = smallest(squares.masked_fill(~others.different, 5.0), 1)  # more than any of two unit vectors
        both = others.same.any(1) & others.different.any(1)
        return torch.where(both, (farthest - nearest + self.margin).clamp_min(0), 0.0)


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Of each row, over the columns of the mask; 0 where it is empty."""
    return torch.where(mask, values, 0.0).sum(1) / mask.sum(1).clamp_min(1)
