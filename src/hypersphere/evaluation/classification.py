"""Accuracy on test samples of the training classes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ...data.loader import IGNORE
from ..objective import hits
from .judged import Judged

__all__ = ["classes", "classification", "top5"]


def classification(judged: Judged) -> dict[str, float]:
    """``accuracy`` in percent and mean cross-entropy ``loss`` of the logits."""
    _check_classes(judged)
    sums = torch.zeros(3, dtype=torch.float64, device=judged.team.device)
    for inputs, labels in judged.source.test():
        logits = judged.logits(inputs)
        loss = F.cross_entropy(logits, labels, ignore_index=IGNORE, reduction="sum")
        sums += torch.stack([value.double() for value in (hits(logits, labels), loss, (labels != IGNORE).sum())])
    right, loss_sum, samples = judged.team.sum(sums).tolist()
    return {"accuracy": 100 * right / max(samples, 1), "loss": loss_sum / max(samples, 1)}


def top5(judged: Judged) -> dict[str, float]:
    """``top5_accuracy``: the label is among the five largest logits, in percent."""
    _check_classes(judged)
    sums = torch.zeros(2, dtype=torch.float64, device=judged.team.device)
    for inputs, labels in judged.source.test():
        logits = judged.logits(inputs)
        best: Tensor = logits.topk(min(5, logits.shape[1])).indices
        sums += torch.stack([value.double() for value in ((best == labels[:, None]).sum(), (labels != IGNORE).sum())])
    right, samples = judged.team.sum(sums).tolist()
    return {"top5_accuracy": 100 * right / max(samples, 1)}


def classes(judged: Judged) -> dict[str, float]:
    """``class_0_accuracy``, ``class_1_accuracy``, ...: of the test samples of each class, in percent."""
    _check_classes(judged)
    count = judged.source.facts.num_classes
    sums = torch.zeros(2, count, dtype=torch.float64, device=judged.team.device)
    for inputs, labels in judged.source.test():
        real = labels != IGNORE
        right = (judged.logits(inputs).argmax(1) == labels)[real].double()
        sums[0].index_add_(0, labels[real], right)
        sums[1].index_add_(0, labels[real], torch.ones_like(right))
    right, samples = judged.team.sum(sums).tolist()
    shares = zip(right, samples, strict=True)
    return {f"class_{i}_accuracy": 100 * hit / all_ for i, (hit, all_) in enumerate(shares) if all_}


def _check_classes(judged: Judged) -> None:
    if judged.source.open_set:
        raise ValueError(
            f"the test classes of {judged.config.data.name} are others than those of training: "
            "judge by --evaluation.protocol verification or few_shot"
        )
