"""The loss of a run: the network's own classifier with cross-entropy, or a head of :mod:`hypersphere.losses`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from .. import kernels
from .._core.sphere import upcast
from ..data.loader import IGNORE
from ..evaluation.classification import hits
from ..models.pointnet import PointNet
from ..runs import Networks


class Objective(Networks):
    """(inputs, labels) → loss and how many the logits got right.

    ``transform`` weighs the departure of PointNet's feature transforms from orthogonal ones, mean over the clouds.
    """

    def __init__(
        self,
        model: nn.Module,
        head: nn.Module | None,
        label_smoothing: float = 0.0,
        hinge: bool = False,
        transform: float = 0.0,
        generator: nn.Module | None = None,
    ) -> None:
        super().__init__(model, head, generator)
        self.label_smoothing, self.hinge, self.transform = label_smoothing, hinge, transform
        if transform and not (isinstance(model, PointNet) and model.body.feature_transform is not None):
            raise ValueError(f"regularizer.transform={transform:g} needs T-Nets: use --model.name pointnet_tnet")

    def forward(self, inputs: tuple[Tensor, ...], labels: Tensor) -> tuple[Tensor, Tensor]:
        out, extra = self.model(*inputs, penalty=True) if self.transform else (self.model(*inputs), None)
        loss, right = self.loss_and_hits(out, labels)
        return loss if extra is None else loss + self.transform / len(labels) * extra, right

    def loss_and_hits(self, out: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of what the network gave, and how many are right."""
        if self.head is None:
            return self._own_loss(out, labels), hits(out.detach(), labels)
        return self.head(out, labels), self._right(self.head, out.detach(), labels)

    def counted(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor] | None:
        """The cross-entropy of a network without a head, and (loss, 0, right answers, samples, 1), by one kernel.

        None where plain operations must be used.
        """
        if self.hinge or not kernels.usable(logits, "loader") or not kernels.criterion.fits(logits):
            return None
        return _Criterion.apply(logits, labels, self.label_smoothing)

    @torch.no_grad()
    def _right(self, head: Any, features: Tensor, labels: Tensor) -> Tensor:
        if getattr(head, "shards", None) is None:
            return hits(head.logits(features), labels)
        return (head.predict(features) == labels).sum()  # logits of all classes are never together

    def _own_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self.hinge:
            return hinge_loss(logits, labels)
        return F.cross_entropy(logits, labels, ignore_index=IGNORE, label_smoothing=self.label_smoothing)

    def picture(self) -> Tensor | None:
        """What there is to look at after an evaluation, uint8 ``(1 or 3, H, W)``; of classifiers nothing."""
        return None


class _Criterion(torch.autograd.Function):
    """Cross-entropy by a kernel that computes the gradient and counts as well."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        loss, grad, stats = kernels.criterion.criterion(logits, labels, IGNORE, smoothing)
        ctx.save_for_backward(grad)
        ctx.mark_non_differentiable(stats)
        ctx.set_materialize_grads(False)
        return loss, stats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor, _: Tensor | None) -> tuple[Tensor, None, None]:
        (grad,) = ctx.saved_tensors
        return grad * d_loss, None, None


def hinge_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over the samples of Σ_k max(0, 1 − t_k z_k), t_k = 1 for the label and −1 for the others."""
    logits, counts = upcast(logits), labels != IGNORE
    signs = torch.full_like(logits, -1.0).scatter_(1, labels.clamp_min(0)[:, None], 1.0)
    losses = (1 - signs * logits).clamp_min(0).sum(1)
    return torch.where(counts, losses, 0.0).sum() / counts.sum()
