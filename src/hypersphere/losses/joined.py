"""A head with a term beside it: what SphereFace+, center loss and contrastive loss share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .._core.checks import check_positive
from ._inputs import check_labels, counted, reduce_losses
from .head import ClassHead


class JoinedHead(nn.Module):
    """L = L_head + λ·term: a subclass says what the term of each sample is (:meth:`terms`).

    The loss follows the head's ``reduction`` and ``ignore_index``: the mean is over the samples that are not ignored
    (NaN if all are, as in torch's cross-entropy), and "sum" and "none" include the term of each sample. ``head`` may be
    joined itself, so that terms add up.

    Args:
        head: any head of this package with class vectors; it stays the owner of the class vectors.
        weight: λ ≥ 0. The property ``weight`` of the object is the class vectors, as in every head.
    """

    def __init__(self, head: ClassHead | JoinedHead, weight: float) -> None:
        super().__init__()
        if not isinstance(head, ClassHead | JoinedHead):
            raise TypeError(
                f"head must be a head of hypersphere.losses with class vectors, not {type(head).__name__}: pass e.g. "
                "hs.losses.Softmax(in_features, num_classes)"
            )
        self.head = head
        self.term_weight = check_positive("weight", weight, zero=True)

    @property
    def owner(self) -> ClassHead:
        """The innermost head, which owns the class vectors."""
        return self.head.owner if isinstance(self.head, JoinedHead) else self.head

    @property
    def weight(self) -> Tensor:
        """The class vectors."""
        return self.owner.weight

    @property
    def in_features(self) -> int:
        return self.owner.in_features

    @property
    def num_classes(self) -> int:
        return self.owner.num_classes

    @property
    def ignore_index(self) -> int:
        return self.owner.ignore_index

    @property
    def reduction(self) -> str:
        return self.owner.reduction

    def reset_parameters(self) -> None:
        """Reset the parameters of the head."""
        self.head.reset_parameters()

    def forward(self, features: Tensor, labels: Tensor, indices_tuple: Sequence[Tensor] | None = None) -> Tensor:
        """Compute the loss of a batch.

        Args:
            features: features of the batch, (..., in_features), of any floating dtype.
            labels: class index of each sample, (...).
            indices_tuple: what a miner of pytorch-metric-learning returns; it weights the samples in the head's loss.

        Returns:
            A scalar, or one loss per sample with ``reduction="none"``.
        """
        loss: Tensor = self.head(features, labels, indices_tuple)
        owner = self.owner
        flat, counts = check_labels(labels, features, owner.num_classes, self.ignore_index)
        x = counted(features.reshape(-1, owner.in_features), counts)
        terms = torch.where(counts, self.terms(x, flat, counts), 0.0)
        return loss + self.term_weight * reduce_losses(terms, counts.to(terms.dtype), self.reduction, labels.shape)

    def terms(self, x: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
        """(N,) of features x (N, in_features) and labels (N,); where ``counts`` is False both are 0, and not read."""
        raise TypeError(f"{type(self).__name__} must define terms(x, labels, counts)")

    def logits(self, features: Tensor) -> Tensor:
        """Compute the logits of test time, without margin and annealing.

        Args:
            features: features of the batch, (..., in_features).

        Returns:
            Logits (..., num_classes).
        """
        return self.owner.logits(features)

    def predict(self, features: Tensor) -> Tensor:
        """Find the class with the largest logit.

        Args:
            features: features of the batch, (..., in_features).

        Returns:
            Class indices (...).
        """
        return self.owner.predict(features)

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """Compute :meth:`logits`, under the name that pytorch-metric-learning uses.

        Args:
            embeddings: features of the batch, (..., in_features).

        Returns:
            Logits (..., num_classes).
        """
        return self.owner.logits(embeddings)

    def extra_repr(self) -> str:
        return f"weight={self.term_weight:g}"
