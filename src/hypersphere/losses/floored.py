"""The loss of the authors' public code, for recipes that train as that code does."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .head import ClassHead

FLOOR, SMOOTHING = 1e-4, 0.01


class FlooredSoftmax(ClassHead):
    """−Σ_j t_j log(p_j + 1e-4), p the softmax of W_j·x, t the label smoothed by 0.01.

    The authors' public code of SphereNet, MHE and OPT trains with this loss (https://github.com/wy1iu). Its gradient
    nearly vanishes if p_j is close to 1 for a wrong class j: the network learns nothing from a confident mistake, whose
    loss is 9.1. In your own trainings use :class:`hypersphere.losses.Softmax` with ``label_smoothing``.

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` over the samples.
        ignore_index: label of samples that are ignored.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Losses are computed in at least float32.

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Example:
        >>> head = hs.losses.FlooredSoftmax(64, 10)
        >>> loss = head(torch.randn(4, 64), torch.tensor([0, 1, 2, 9]))
        >>> loss.shape
        torch.Size([])
    """

    normalize = False
    splits = False

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        reduction: str = "mean",
        ignore_index: int = -100,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            in_features, num_classes, reduction=reduction, ignore_index=ignore_index, device=device, dtype=dtype
        )

    def reset_parameters(self) -> None:
        """Draw the class vectors by the initialisation of He et al."""
        nn.init.normal_(self.weight, std=(2.0 / self.in_features) ** 0.5)

    def losses(self, x: Tensor, labels: Tensor, counts: Tensor, half: bool) -> tuple[Tensor, Tensor]:
        losses = floored(self.score(self.rows(x), self.classes(), []), labels)
        return losses, losses.new_ones(losses.shape)


def floored(logits: Tensor, labels: Tensor) -> Tensor:
    """−Σ_j t_j log(p_j + 1e-4) of each row of logits, t the label smoothed by 0.01."""
    shares = (logits.softmax(1) + FLOOR).log()
    own = shares.gather(1, labels[:, None])[:, 0]
    return -((1 - SMOOTHING) * own + SMOOTHING * shares.mean(1))
