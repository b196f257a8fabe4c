"""What every head shares: class vectors, checked input, the logits ranked at test time, one pass over the classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .._core.checks import check_count
from .._core.modes import autocast_dtype, without_autocast
from .._core.precision import FullPrecision
from .._core.sphere import compute_dtype
from ._classes import Classes, Score, block_width, reduce_classes
from ._fused import Known, fits, reduce_fused
from ._inputs import check_features, check_head, check_label_shape, check_labels, counted, miner_weights, reduce_losses


class ClassHead(FullPrecision):
    """Class vectors ``weight`` (num_classes, in_features) and a score of each for a feature.

    With K > 1 ``sub_centers`` a class has K rows of the weight, j·K to j·K + K − 1, of which the one closest to a
    feature counts. A subclass defines the loss of a sample (:meth:`losses`) and the logits of a block of classes
    (:meth:`rows`, :meth:`classes`, :meth:`score`). Everything is computed in float32 (or float64) whatever the dtype of
    features and weight; neither is ever modified. Under autocast the same holds, except on a GPU: there the products of
    features and class vectors have bfloat16 operands and float32 sums. The logit of the correct class stays in float32.
    """

    shards: Any = None
    """The share of the classes that this process owns, after :func:`hypersphere.losses.shard`."""

    normalize = True
    """Whether only the direction of a class vector counts; else its length multiplies the logit."""

    splits = True
    """Whether sums over parts of the classes are enough for the loss, as :func:`hypersphere.losses.shard` needs."""

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        reduction: str = "mean",
        ignore_index: int = -100,
        chunk: int | str | None = "auto",
        sub_centers: int = 1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.num_classes, self.reduction, self.ignore_index = check_head(
            in_features, num_classes, reduction, ignore_index
        )
        if isinstance(chunk, str) and chunk != "auto":
            raise ValueError(f'chunk={chunk!r} must be "auto", a number of classes, or None (dense)')
        self.chunk = check_count("chunk", chunk) if chunk is not None and not isinstance(chunk, str) else chunk
        self.sub_centers = check_count("sub_centers", sub_centers)
        rows = self.num_classes * self.sub_centers
        self.weight = nn.Parameter(torch.empty(rows, self.in_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw class vectors uniformly on the sphere, of length about 1; as ``nn.Linear`` if their length matters."""
        if self.normalize:
            nn.init.normal_(self.weight, std=self.in_features**-0.5)
        else:
            nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def forward(self, features: Tensor, labels: Tensor, indices_tuple: Sequence[Tensor] | None = None) -> Tensor:
        """Compute the loss of a batch.

        Args:
            features: features of the batch, (..., in_features), of any floating dtype.
            labels: class index of each sample, (...).
            indices_tuple: what a miner of pytorch-metric-learning returns; it weights the samples.

        Returns:
            A scalar, or one loss per sample with ``reduction="none"``.
        """
        if self.shards is not None:
            return self.shards.loss(self, features, labels, indices_tuple)
        check_features(features, self.in_features)
        check_label_shape(labels, features)
        half = autocast_dtype(features.device) is not None
        x = features.reshape(-1, self.in_features).to(self.computing_dtype(features))
        direct = self.direct_loss(x, labels, half) if indices_tuple is None else None
        if direct is not None:
            return direct
        flat, counts = check_labels(labels, features, self.num_classes, self.ignore_index)
        with without_autocast(features.device):
            losses, divisors = self.losses(counted(x, counts), flat, counts, half)
            weights = miner_weights(indices_tuple, x.shape[0], losses)
            losses = torch.where(counts, losses if weights is None else losses * weights, 0.0)
            return reduce_losses(losses, torch.where(counts, divisors, 0.0), self.reduction, labels.shape)

    def class_tensors(self) -> dict[str, Tensor]:
        """Parameters and buffers with one entry for each class, by name: what ``hs.losses.shard`` splits."""
        own = (*self.named_parameters(recurse=False), *self.named_buffers(recurse=False))
        return {
            n: t for n, t in own if n in ("weight", "class_weight") or (n == "bias" and t.shape == (self.num_classes,))
        }

    @torch.no_grad()
    def predict(self, features: Tensor) -> Tensor:
        """Return the class with the largest logit, (...), for features (..., in_features).

        A sharded head finds it without gathering logits. All processes must call it together, with equally many
        features.
        """
        if self.shards is None:
            return self.logits(features).argmax(-1)
        check_features(features, self.in_features)
        with without_autocast(features.device):
            x = features.reshape(-1, self.in_features).to(self.computing_dtype(features))
            found: Tensor = self.shards.predict(self, x)
            return found.reshape(features.shape[:-1])

    def logits(self, features: Tensor) -> Tensor:
        """Compute the logits of test time, without margin and annealing.

        Args:
            features: features of the batch, (..., in_features).

        Returns:
            Logits (..., num_classes).
        """
        check_features(features, self.in_features)
        with without_autocast(features.device):
            x = features.reshape(-1, self.in_features).to(self.computing_dtype(features))
            scored = (
                self.score(self.rows(x), self.classes(), []) if self.shards is None else self.shards.logits(self, x)
            )
            return scored.reshape(*features.shape[:-1], self.num_classes)

    def get_logits(self, embeddings: Tensor) -> Tensor:
        """Compute :meth:`logits`, under the name that pytorch-metric-learning uses.

        Args:
            embeddings: features of the batch, (..., in_features).

        Returns:
            Logits (..., num_classes).
        """
        return self.logits(embeddings)

    def direct_loss(self, x: Tensor, labels: Tensor, half: bool) -> Tensor | None:
        """The reduced loss by kernels that know all of it, or None; ``labels`` as the caller gave them."""
        return None

    def losses(self, x: Tensor, labels: Tensor, counts: Tensor, half: bool) -> tuple[Tensor, Tensor]:
        """(loss of each sample, what each counts for in the mean), for x (N, in_features) in the computing dtype.

        ``counts`` says which samples are not ignored; what is computed for the others is dropped. ``half`` allows
        products over all classes in half precision (kernels on a GPU do so, nothing else).
        """
        raise TypeError(f"{type(self).__name__} must define losses(x, labels, counts, half)")

    def rows(self, x: Tensor) -> list[Tensor]:
        """What :meth:`score` needs of the samples: tensors (N, ...)."""
        return [x]

    def classes(self) -> list[Tensor]:
        """What :meth:`score` needs of the classes: tensors (num_classes, ...), the class vectors first."""
        return [local(self.weight)]

    def own_vectors(self, labels: Tensor) -> Tensor:
        """The vectors of these classes, (N, in_features) or (N, K, in_features), without a gradient."""
        vectors = self.classes()[0].detach()
        return vectors.index_select(0, labels) if self.shards is None else self.shards.own_vectors(vectors, labels)

    def score(self, rows: list[Tensor], classes: list[Tensor], shared: list[Tensor]) -> Tensor:
        """Logits (N, B) of a block of B classes, from these tensors alone."""
        return rows[0] @ classes[0].to(rows[0].dtype).T

    def reduce(self, score: Score, rows: list[Tensor], labels: Tensor, shared: list[Tensor], **options: Any) -> Classes:
        """One pass over all classes: see :func:`reduce_classes`, and :meth:`reduce_here` for further options."""
        if self.shards is not None:
            return self.shards.reduce(self, score, rows, labels, shared, **options)
        return self.reduce_here(score, rows, self.classes(), labels, shared, whole=True, **options)

    def reduce_here(
        self,
        score: Score,
        rows: list[Tensor],
        classes: list[Tensor],
        labels: Tensor,
        shared: list[Tensor],
        *,
        known: Known | None = None,
        half: bool = False,
        **options: Any,
    ) -> Classes:
        """The pass over the classes of this process; through kernels where they know the score, ``known``."""
        if known is not None and self.chunk is not None and fits(rows, classes):
            width = self.chunk if isinstance(self.chunk, int) else None
            return reduce_fused(known, score, rows, classes, shared, labels, width=width, half=half, **options)
        width = block_width(self.chunk, rows[0].shape[0], classes[0].shape[0], rows[0].device)
        return reduce_classes(score, rows, classes, shared, labels, width=width, **options)

    def extra_repr(self) -> str:
        reduction = "" if self.reduction == "mean" else f", reduction={self.reduction!r}"
        centers = "" if self.sub_centers == 1 else f", sub_centers={self.sub_centers}"
        return f"in_features={self.in_features}, num_classes={self.num_classes}{centers}{reduction}"

    def computing_dtype(self, features: Tensor) -> torch.dtype:
        """What the loss of these features is computed in."""
        return torch.promote_types(compute_dtype(features.dtype), compute_dtype(self.weight.dtype))


def local(tensor: Tensor) -> Tensor:
    """Of a sharded tensor, the part of this process."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor
