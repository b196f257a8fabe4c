"""Accuracy on test samples of the training classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .. import metrics
from ..config import Config
from ..data.loader import IGNORE
from ..runs import Team
from ..runs.quantities import Quantity
from ..sources import Source
from .candidate import Candidate
from .measurement import measurement, number_lines

_MATRIX = 200  # classes up to which confusion matrices are written out


def _details(candidate: Candidate) -> dict[str, Any]:
    """Balanced and top-5 accuracy, errors of each class, confusion; mean cosines of features and class vectors."""
    found = candidate.outputs
    if found.logits is None:
        raise ValueError("the test classes differ from the training classes: evaluate verification or retrieval")
    result = metrics.classification(found.logits, found.labels, found.classes)
    errors = zip(result.classes, (100 * result.class_errors).tolist(), result.counts.tolist(), strict=True)
    out: dict[str, Any] = {
        "balanced_accuracy": 100 * result.balanced_accuracy,
        "top5_accuracy": 100 * result.top(min(5, found.logits.shape[1])),
        "classes": [{"name": name, "error": error, "samples": count} for name, error, count in errors if count],
    }
    if len(found.classes) <= _MATRIX:
        out["confusion"] = result.confusion.tolist()
        out["cosine_confusion"] = metrics.cosine_confusion(found.features, found.labels, found.class_vectors).tolist()
    return out


def _lines(part: Mapping[str, Any]) -> list[str]:
    worst = sorted(part["classes"], key=lambda one: -one["error"])[:5]
    return [
        *number_lines({key: part[key] for key in ("accuracy", "top5_accuracy", "balanced_accuracy")}),
        "  most errors:",
        *(f"    {one['name']:16s} {one['error']:.2f}% of {one['samples']}" for one in worst),
    ]


def check_classes(config: Config, source: Source, team: Team) -> None:
    """Refuse what compares labels with logits where the test classes are not those of training."""
    if source.open_set:
        raise ValueError(
            f"the test classes of {config.evaluation.data or config.data.name} are not the training classes, which "
            "the logits are for: evaluate by verification or few_shot (--evaluation.protocol in training, --parts "
            "afterwards)"
        )


def _words(config: Config) -> str:
    return f"accuracy on the test split every {config.run.eval_every:,} steps"


@measurement(
    "classification",
    label="Test accuracy",
    about="accuracy on test samples of the training classes",
    protocol=True,
    also=False,
    suits=("closed",),
    quantities=(Quantity("balanced_accuracy", "Balanced accuracy", "%", True),),
    details=_details,
    lines=_lines,
    words=_words,
    check=check_classes,
)
def classification(candidate: Candidate) -> dict[str, float]:
    """``accuracy`` in percent and mean cross-entropy ``loss`` of the logits."""
    check_classes(candidate.config, candidate.source, candidate.team)
    sums = torch.zeros(3, dtype=torch.float64, device=candidate.team.device)
    for inputs, labels in candidate.source.test():
        logits = candidate.logits(inputs)
        loss = F.cross_entropy(logits, labels, ignore_index=IGNORE, reduction="sum")
        sums += torch.stack([value.double() for value in (hits(logits, labels), loss, (labels != IGNORE).sum())])
    right, loss_sum, samples = candidate.team.sum(sums).tolist()
    return {"accuracy": 100 * right / max(samples, 1), "loss": loss_sum / max(samples, 1)}


@measurement(
    "top5",
    label="Top-5 accuracy",
    about="how often the label is among the five largest logits",
    quantities=(Quantity("top5_accuracy", "Top-5 accuracy", "%", True),),
    check=check_classes,
)
def top5(candidate: Candidate) -> dict[str, float]:
    """``top5_accuracy``: the label is among the five largest logits, in percent."""
    check_classes(candidate.config, candidate.source, candidate.team)
    sums = torch.zeros(2, dtype=torch.float64, device=candidate.team.device)
    for inputs, labels in candidate.source.test():
        logits = candidate.logits(inputs)
        best: Tensor = logits.topk(min(5, logits.shape[1])).indices
        sums += torch.stack([value.double() for value in ((best == labels[:, None]).sum(), (labels != IGNORE).sum())])
    right, samples = candidate.team.sum(sums).tolist()
    return {"top5_accuracy": 100 * right / max(samples, 1)}


@measurement(
    "classes",
    label="Accuracy of each class",
    about="the accuracy of each class",
    quantities=(Quantity("class_*_accuracy", "Accuracy of class {}", "%", True),),
    check=check_classes,
)
def classes(candidate: Candidate) -> dict[str, float]:
    """``class_0_accuracy``, ``class_1_accuracy``, ...: of the test samples of each class, in percent."""
    check_classes(candidate.config, candidate.source, candidate.team)
    count = candidate.source.facts.num_classes
    sums = torch.zeros(2, count, dtype=torch.float64, device=candidate.team.device)
    for inputs, labels in candidate.source.test():
        real = labels != IGNORE
        right = (candidate.logits(inputs).argmax(1) == labels)[real].double()
        sums[0].index_add_(0, labels[real], right)
        sums[1].index_add_(0, labels[real], torch.ones_like(right))
    right, samples = candidate.team.sum(sums).tolist()
    shares = zip(right, samples, strict=True)
    return {f"class_{i}_accuracy": 100 * hit / all_ for i, (hit, all_) in enumerate(shares) if all_}


def hits(logits: Tensor, labels: Tensor) -> Tensor:
    """Number of samples whose label has the largest logit (-100 never has)."""
    return (logits.argmax(-1) == labels).sum()
