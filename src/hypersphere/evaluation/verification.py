"""Verification: do two test images show one class? Also for classes that training never saw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .. import data, metrics
from .._core.registries import DATASETS
from ..config import Config, EvaluationConfig
from ..data.loader import IGNORE
from ..functional import unit
from ..runs import Team
from ..runs.quantities import Quantity
from ..sources import Elsewhere, Source
from .candidate import Candidate
from .measurement import measurement

FAR = (1e-1, 1e-2, 1e-3)  # false accept rates at which the true accept rate is given


@dataclass(frozen=True, eq=False)
class Verified:
    """Pairs of test samples and how well they are told apart.

    Attributes:
        pairs: The pairs of test samples that were verified, with their folds.
        scores: Cosine of the features of each pair.
        labels: Class index of each test sample, ``(N,)``.
        result: Accuracy, thresholds and ROC by LFW's protocol.
        mean_length: R of :func:`mean_length`, by which collapsed features show.

    Example:
        >>> from hypersphere.evaluation import candidate_of, verify
        >>> from hypersphere.config import with_values
        >>> run = hs.runs.Run("runs/digits")
        >>> config = with_values(run.config, {"evaluation.folds": 2, "evaluation.pairs": 20})
        >>> len(verify(candidate_of(run, config=config)).scores)
        80
    """

    pairs: data.Pairs
    scores: Tensor
    labels: Tensor
    result: metrics.VerificationResult
    mean_length: float


def mean_length(features: Tensor) -> float:
    """R = ‖mean of the unit features‖: 1 where all point in one direction, near 0 where they are spread.

    Args:
        features: features (N, d), one sample per row; their lengths do not matter.

    Returns:
        R, in [0, 1].

    Example:
        >>> from hypersphere.evaluation import mean_length
        >>> mean_length(torch.tensor([[3.0, 0.0], [-1.0, 0.0]]))
        0.0
    """
    return float(unit(features.detach().double()).mean(0).norm())


def verify(candidate: Candidate) -> Verified:
    """Apply LFW's protocol to the pairs of the test split: the set's own, or pairs drawn from the labels.

    Args:
        candidate: the trained network, its test split and its settings.

    Returns:
        The pairs, their scores and the result.

    Example:
        >>> from hypersphere.config import with_values
        >>> from hypersphere.evaluation import candidate_of, verify
        >>> run = hs.runs.Run("runs/digits")
        >>> config = with_values(run.config, {"evaluation.folds": 2, "evaluation.pairs": 20})
        >>> verify(candidate_of(run, config=config)).result.pairs
        80
    """
    rule = candidate.config.evaluation
    features, labels = candidate.embedding(rule.flip)
    pairs = _pairs(candidate.source.pairs, labels, rule)
    result = metrics.verify_pairs(features, pairs, center=rule.center)
    scores = metrics.pair_scores(features, pairs.left, pairs.right)
    return Verified(pairs, scores, labels, result, mean_length(features))


def in_percent(found: metrics.VerificationResult) -> dict[str, float]:
    """The numbers of a verification that are logged and reported: percents, and the cosine of the threshold."""
    rates = {f"tar@{far:g}": 100 * float(found.tar_at(far)) for far in FAR}
    shown = {"accuracy": found.accuracy, "accuracy_std": found.std, "auc": found.auc, "eer": found.eer}
    cuts = found.thresholds[found.thresholds.isfinite()]  # infinite where accepting or refusing all is best
    threshold = {"threshold": float(cuts.mean())} if len(cuts) else {}
    return {name: 100 * float(value) for name, value in shown.items()} | rates | threshold


def _details(candidate: Candidate) -> dict[str, Any]:
    pairs = _pairs_of(candidate.config, candidate.source, candidate.team)
    return {"pairs": len(pairs), "folds": len(pairs.fold.unique())}


def _check(config: Config, source: Source, team: Team) -> None:
    if source.pairs is not None:
        return
    if source.own is not None:  # its labels are known without decoding an image
        _pairs(None, source.own.test.labels, config.evaluation)
    elif source.resident:
        _pairs_of(config, source, team)


def _pairs_of(config: Config, source: Source, team: Team) -> data.Pairs:
    """The same pairs as :func:`verify` takes, without a network."""
    if isinstance(source, Elsewhere) and source.videos is not None:
        return _pairs(source.pairs, source.videos, config.evaluation)
    labels = torch.cat([rows for _, own in source.test() for rows in team.gather(own)])
    return _pairs(source.pairs, labels[labels != IGNORE], config.evaluation)


def _pairs(official: data.Pairs | None, labels: Tensor, rule: EvaluationConfig) -> data.Pairs:
    if official is not None:
        return official.folded(rule.folds)
    try:
        return data.make_pairs(labels, rule.folds, rule.pairs)
    except ValueError as error:
        enough = int((labels.unique(return_counts=True)[1] > 1).sum()) >= 4
        fix = "--evaluation.folds, --evaluation.pairs; " if enough else "even two folds need four of them; "
        raise ValueError(
            f"the test set cannot give the pairs that verification asks for: {error} ({fix}--data.held-out holds out "
            "more classes)"
        ) from error


def place_and_aids(rule: EvaluationConfig) -> tuple[str, str]:
    """The other data set on which features are compared, and what is done to them, in words; empty without."""
    aids = (", mirror images added" if rule.flip else "") + (", mean feature subtracted" if rule.center else "")
    return f" on {DATASETS.label(rule.data)}" if rule.data else "", aids


def _words(config: Config) -> str:
    rule = config.evaluation
    where, aids = place_and_aids(rule)
    return (
        f"verification of pairs of unseen classes{where}: cosine of the features, {rule.folds} folds, the threshold of "
        f"each chosen on the others{aids}"
    )


@measurement(
    "verification",
    label="Verification accuracy",
    about="whether two samples of unseen classes are of one class",
    protocol=True,
    also=False,
    suits=("open",),
    quantities=(
        Quantity("accuracy_std", "Standard error of the accuracy", "%", False),
        Quantity("auc", "Area under ROC", "%", True),
        Quantity("eer", "Equal error rate", "%", False),
        Quantity("tar@*", "True accepts at {}", "%", True),
        Quantity("threshold", "Cosine from which two are of one class"),
        Quantity("mean_length", "Length of the mean unit feature, 1 if all point in one direction"),
    ),
    details=_details,
    words=_words,
    check=_check,
)
def verification(candidate: Candidate) -> dict[str, float]:
    """LFW's protocol on the pairs of the test split, cosine of the features, all in percent but the last two.

    ``accuracy`` with the threshold of each fold chosen on the others, its standard error ``accuracy_std``, area under
    the ROC curve ``auc``, equal error rate ``eer``, true accept rates ``tar@0.01``, the mean ``threshold``, and the
    length ``mean_length`` of the mean unit feature.
    """
    found = verify(candidate)
    return in_percent(found.result) | {"mean_length": found.mean_length}
