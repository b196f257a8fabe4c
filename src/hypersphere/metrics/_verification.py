"""Are two samples of one class? Verification of pairs with a threshold chosen on other pairs (LFW's protocols)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import Tensor

from .._core.arrays import as_tensor, takes_arrays
from .._core.checks import check_count
from .._core.streams import Shown
from ._inputs import score_column
from ._roc import ROC, accept_counts, roc_curve


@dataclass(frozen=True, eq=False)
class VerificationResult(Shown):
    """What verification gives; rates are fractions in [0, 1].

    Attributes:
        accuracy: Mean accuracy over the folds, a fraction in [0, 1].
        std: Its standard error, as LFW reports beside it (the folds' sample standard deviation over √folds).
        fold_accuracies: Accuracy of each fold at the threshold that was chosen on the other folds.
        thresholds: Threshold of each fold, chosen on the other folds; scores at or above it are accepted.
        roc: Curve of all held-out scores.
        pairs: Number of pairs that were scored, of both kinds together.

    Example:
        >>> hs.metrics.verification([0.9, 0.3, 0.8, 0.1], [1, 0, 1, 0], folds=2).pairs
        4
    """

    accuracy: float
    std: float
    fold_accuracies: Tensor
    thresholds: Tensor
    roc: ROC
    pairs: int

    @property
    def auc(self) -> float:
        """Area under the ROC curve."""
        return self.roc.auc

    @property
    def eer(self) -> float:
        """Equal error rate."""
        return self.roc.eer

    @overload
    def tar_at(self, far: float) -> float: ...
    @overload
    def tar_at(self, far: Tensor) -> Tensor: ...
    def tar_at(self, far: float | Tensor | Any) -> float | Tensor:
        """Return the largest true accept rate at a false accept rate of at most ``far``: see :meth:`ROC.tar_at`.

        Args:
            far: a rate in [0, 1], or a tensor, array or list of rates.

        Returns:
            The true accept rate in [0, 1]; a tensor of rates for several.
        """
        return self.roc.tar_at(far)

    def __repr__(self) -> str:
        return (
            f"VerificationResult(accuracy={self.accuracy:.4f} ± {self.std:.4f}, auc={self.auc:.4f}, "
            f"eer={self.eer:.4f}, {self.pairs} pairs)"
        )


@takes_arrays("scores", labels=("folds",))
@torch.no_grad()
def verification(scores: Tensor, same: Tensor, folds: int | Tensor = 10) -> VerificationResult:
    """Accuracy of ``score ≥ threshold``, the threshold of each fold chosen on the other folds (LFW View 2).

    The threshold is the cut with the best accuracy on the other folds: midway between two neighbouring scores, the
    lowest of equally good ones, infinite if accepting or rejecting every pair is best.

    Args:
        scores: similarity of each pair, (n,), larger is more alike; any scale, ties are allowed.
        same: whether the two are of one class, (n,), booleans or 0 and 1.
        folds: how many consecutive folds of equal size, as LFW lists its pairs (sizes differ by one where n does
            not divide), or the fold number of each pair, (n,).

    Returns:
        Accuracy, its standard error, the thresholds and the ROC curve.

    Example:
        >>> hs.metrics.verification([0.9, 0.3, 0.8, 0.1], [1, 0, 1, 0], folds=2).accuracy
        1.0
    """
    column = score_column("scores", scores)
    kinds = pair_kinds("same", same, len(column))
    return cross_validate(lambda _, __: column, kinds, _fold_numbers(folds, len(column)))


@takes_arrays("train_scores", "scores")
@torch.no_grad()
def verification_split(train_scores: Tensor, train_same: Tensor, scores: Tensor, same: Tensor) -> VerificationResult:
    """Accuracy with the threshold that is best on other pairs (LFW View 1).

    Args:
        train_scores: similarity of the pairs that the threshold is chosen on, (m,).
        train_same: whether the two of each are of one class, (m,).
        scores: similarity of the pairs that are evaluated, (n,).
        same: whether the two of each are of one class, (n,).

    Returns:
        The accuracy on ``scores``; ``std`` is the standard error of a proportion, √(p(1−p)/n), and the ROC is that of
        ``scores``.

    Example:
        >>> hs.metrics.verification_split([0.9, 0.1], [1, 0], [0.8, 0.3], [1, 0]).accuracy
        1.0
    """
    train_column, column = score_column("train_scores", train_scores), score_column("scores", scores)
    train_kinds = pair_kinds("train_same", train_same, len(train_column))
    return split_validate(train_column, train_kinds, column, pair_kinds("same", same, len(column)))


def cross_validate(score: Callable[[int, Tensor], Tensor], same: Tensor, fold: Tensor) -> VerificationResult:
    """View 2 with ``score(i, held)`` the scores of all pairs when the pairs ``held`` of the i-th fold are held out."""
    numbers = fold.unique()
    accuracies, thresholds, held_out = [], [], torch.empty_like(same, dtype=torch.float64)
    for index, number in enumerate(numbers):
        held = fold == number
        train = same[~held]
        if bool(train.all()) or not bool(train.any()):
            kind = "same" if bool(train.all()) else "different"
            raise ValueError(
                f"without fold {int(number)} all pairs are of the {kind} kind, so no threshold can be chosen: "
                "pass fold numbers that mix both kinds, folds=(n,)"
            )
        scores = score(index, held)
        threshold = _best_threshold(scores[~held], train)
        held_out[held] = scores[held]
        thresholds.append(threshold)
        accuracies.append(float(((scores[held] >= threshold) == same[held]).double().mean()))
    shares = torch.tensor(accuracies, dtype=torch.float64, device="cpu")
    error = float(shares.std() / len(shares) ** 0.5)
    cuts = torch.tensor(thresholds, dtype=torch.float64, device="cpu")
    return VerificationResult(float(shares.mean()), error, shares, cuts, roc_curve(held_out, same), len(same))


def split_validate(train_scores: Tensor, train_same: Tensor, scores: Tensor, same: Tensor) -> VerificationResult:
    """View 1 on checked columns."""
    threshold = _best_threshold(train_scores, train_same)
    accuracy = ((scores >= threshold) == same).double().mean()
    error = float((accuracy * (1 - accuracy) / len(same)).sqrt())
    cut = torch.tensor([threshold], dtype=torch.float64, device="cpu")
    return VerificationResult(float(accuracy), error, accuracy[None], cut, roc_curve(scores, same), len(same))


def pair_kinds(argument: str, same: Any, count: int) -> Tensor:
    """``same`` as booleans on the CPU; both kinds of pairs must occur."""
    same = as_tensor(argument, same)
    if same.shape != (count,):
        raise ValueError(f"{argument} has shape {tuple(same.shape)} for {count} scores: pass one value per pair")
    if same.dtype != torch.bool and not bool(((same == 0) | (same == 1)).all()):
        raise ValueError(f"{argument} has values other than 0 and 1: pass booleans, True for pairs of one class")
    kinds = same.detach().cpu().bool()
    if bool(kinds.all()) or not bool(kinds.any()):
        kind = "same" if bool(kinds.all()) else "different"
        raise ValueError(f"{argument} holds {kind} pairs only: verification needs pairs of both kinds")
    return kinds


def _best_threshold(scores: Tensor, same: Tensor) -> float:
    thresholds, true, false = accept_counts(scores, same)
    gain = true - false  # accuracy up to a constant; the last best one has the lowest threshold
    best = len(gain) - 1 - int(gain.flip(0).argmax())
    if best == len(gain) - 1:
        return -torch.inf
    if best == 0:
        return torch.inf
    upper, lower = float(thresholds[best]), float(thresholds[best + 1])
    middle = lower / 2 + upper / 2
    return middle if middle > lower else upper  # neighbouring floats have nothing between them


def _fold_numbers(folds: int | Tensor, count: int) -> Tensor:
    if isinstance(folds, Tensor):
        if folds.shape != (count,) or folds.is_floating_point() or folds.is_complex() or folds.dtype == torch.bool:
            raise ValueError(
                f"folds is {folds.dtype} of shape {tuple(folds.shape)}: pass {count} fold numbers, or how many folds"
            )
        if len(folds.unique()) < 2:
            raise ValueError("folds has one fold: a threshold is chosen on the others, so there must be two")
        return folds.detach().cpu().long()
    folds = check_count("folds", folds, minimum=2)  # a threshold is chosen on the others
    if count < folds:
        raise ValueError(f"scores has {count} pairs, fewer than folds={folds}")
    parts = torch.arange(count, device="cpu").tensor_split(folds)
    return torch.cat([torch.full_like(part, i) for i, part in enumerate(parts)])
