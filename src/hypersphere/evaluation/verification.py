"""Verification: do two test images show one class? Also for classes that training never saw."""

from __future__ import annotations

from torch import Tensor

from ... import data
from ...metrics import VerificationResult, verify_pairs
from .judged import Judged

__all__ = ["in_percent", "paired", "verification"]

FAR = (1e-1, 1e-2, 1e-3)  # false accept rates at which the true accept rate is given


def verification(judged: Judged) -> dict[str, float]:
    """LFW's protocol on the pairs of the test split, cosine of the features, all in percent.

    ``accuracy`` with the threshold of each fold chosen on the others, its standard error ``accuracy_std``, area under
    the ROC curve ``auc``, equal error rate ``eer`` and true accept rates ``tar@0.01``.
    """
    features, _, pairs = paired(judged)
    return in_percent(verify_pairs(features, pairs, center=judged.config.evaluation.center))


def paired(judged: Judged) -> tuple[Tensor, Tensor, data.Pairs]:
    """Features and labels of the test split, and the pairs that are judged: the set's own, or drawn from the labels."""
    config = judged.config.evaluation
    features, labels = judged.embedding(config.flip)
    pairs = judged.source.pairs
    if pairs is None:
        pairs = data.make_pairs(labels, config.folds, config.pairs)
    return features, labels, pairs.folded(config.folds)


def in_percent(found: VerificationResult) -> dict[str, float]:
    """The numbers of a verification that are logged and reported."""
    rates = {f"tar@{far:g}": 100 * float(found.tar_at(far)) for far in FAR}
    shown = {"accuracy": found.accuracy, "accuracy_std": found.std, "auc": found.auc, "eer": found.eer}
    return {name: 100 * float(value) for name, value in shown.items()} | rates
