"""Center loss, a comparison of thesis Tables 2.9, 2.10 and 5.10, and the class centres that it keeps."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core.checks import check_share
from .._core.modes import without_autocast
from .._core.precision import FullPrecision
from .._core.sphere import compute_dtype
from ._kept import kept
from .batch import BatchWide
from .head import ClassHead
from .joined import JoinedHead


class Centers(FullPrecision):
    """A centre of each class, ``vectors`` (num_classes, in_features), that follows the features seen.

    c_j ← c_j − α·Σ_{i: y_i=j} (c_j − x_i)/(1 + n_j), n_j the number of samples of class j in the batch (Wen et al.
    2016, eq. 4). The centres start at 0 and belong to the state_dict; no gradient reaches them.
    """

    vectors: Tensor
    in_full = ("vectors",)

    def __init__(self, num_classes: int, in_features: int, rate: float, like: Tensor) -> None:
        super().__init__()
        self.rate = check_share("rate", rate)
        vectors = torch.zeros(num_classes, in_features, device=like.device, dtype=compute_dtype(like.dtype))
        self.register_buffer("vectors", vectors)

    def reset_parameters(self) -> None:
        """Back to 0."""
        self.vectors.zero_()

    def of(self, labels: Tensor) -> Tensor:
        """The centres of these labels, as they are before :meth:`follow`."""
        own = self.vectors.index_select(0, labels)
        return kept(own) if torch.compiler.is_compiling() else own

    @torch.no_grad()
    def follow(self, x: Tensor, labels: Tensor) -> None:
        """Move to the features x (N, in_features) of labels (N,), except labels below 0 and what is not finite."""
        counts, place = (labels >= 0) & x.isfinite().all(1), labels.clamp_min(0)
        numbers = torch.zeros(self.vectors.shape[0], dtype=self.vectors.dtype, device=x.device)
        numbers = numbers.index_add(0, place, counts.to(numbers.dtype))
        share = self.rate * counts / (1 + numbers.index_select(0, place))
        away = torch.where(counts[:, None], x.to(self.vectors.dtype) - self.vectors.index_select(0, place), 0.0)
        self.vectors.index_add_(0, place, share.to(away.dtype)[:, None] * away)

    def extra_repr(self) -> str:
        return f"{self.vectors.shape[0]}, {self.vectors.shape[1]}, rate={self.rate:g}"


class CenterLoss(JoinedHead, BatchWide):
    """L = L_head + λ/2·mean_i ‖x_i − c_{y_i}‖² (Wen et al. 2016, eq. 5), c_j the centre of class j.

    In training mode the centres follow the features (:class:`Centers`), after the loss is computed. The features are
    not normalised for it. The defaults λ = 0.003 and α = 0.5 are those of the paper.

    Args:
        head: any head of this package; in the paper it is the softmax.
        weight: λ ≥ 0, the weight of the distances to the centres.
        rate: α in [0, 1], how fast the centres follow the features.

    Shape:
        - features: (..., in_features) of the head; labels: (...), class indices.
        - Output: scalar, or (...) with the head's ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Raises:
        TypeError: If ``head`` is not a head of :mod:`hypersphere.losses`.
        ValueError: If ``weight`` or ``rate`` is out of range.

    Example:
        >>> head = hs.losses.CenterLoss(hs.losses.Softmax(64, 10))
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    def __init__(self, head: ClassHead | JoinedHead, weight: float = 0.003, rate: float = 0.5) -> None:
        super().__init__(head, weight)
        self.centers = Centers(self.num_classes, self.in_features, rate, self.weight)

    def reset_parameters(self) -> None:
        """Reset the parameters of the head, and the centres."""
        super().reset_parameters()
        self.centers.reset_parameters()

    def terms(self, x: Tensor, labels: Tensor, counts: Tensor) -> Tensor:
        with without_autocast(x.device):
            own = self.centers.of(labels)
            x = x.to(torch.promote_types(compute_dtype(x.dtype), own.dtype))
            terms = 0.5 * (x - own).square().sum(1)
            if self.training:
                every, names, _ = self.whole_batch(x.detach(), torch.where(counts, labels, -1))
                self.centers.follow(every, names)
        return terms
