"""The loss of the authors' public code, for recipes that train as that code does."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .head import ClassHead

FLOOR, SMOOTHING = 1e-4, 0.01


class FlooredSoftmax(ClassHead):
    """−Σ_j t_j log(p_j + 1e-4), p the softmax of W_j·x, t the label smoothed by 0.01.

    So the authors' public code of SphereNet, MHE and OPT trains (https://github.com/wy1iu). Its gradient nearly
    vanishes where one p_j is 1 and the label another: a network that is sure and wrong learns nothing, and its loss is
    9.1. For a training of your own take :class:`hypersphere.losses.Softmax` with ``label_smoothing``.

    Args:
        in_features: number of entries of a feature, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` over the samples.
        ignore_index: label of samples that are ignored.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Losses are computed in float32 at least.

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
        """Class vectors as He et al. say."""
        nn.init.normal_(self.weight, std=(2.0 / self.in_features) ** 0.5)

    def losses(self, x: Tensor, labels: Tensor, counts: Tensor, half: bool) -> tuple[Tensor, Tensor]:
        losses = floored(self.score(self.rows(x), self.classes(), []), labels)
        return losses, losses.new_ones(losses.shape)


def floored(logits: Tensor, labels: Tensor) -> Tensor:
    """−Σ_j t_j log(p_j + 1e-4) of each row of logits, t the label smoothed by 0.01."""
    shares = (logits.softmax(1) + FLOOR).log()
    own = shares.gather(1, labels[:, None])[:, 0]
    return -((1 - SMOOTHING) * own + SMOOTHING * shares.mean(1))
