"""The receiver operating characteristic of scored pairs: exact under ties, no thresholds on a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import Tensor

from .._core.arrays import as_numbers
from .._core.checks import is_number
from .._core.errors import check_floating


@dataclass(frozen=True, eq=False)
class ROC:
    """The points (``fpr``, ``tpr``) of accepting pairs with score ≥ ``thresholds``; float64, from (0, 0) to (1, 1).

    There is one point for each distinct score, in falling order; equal scores are accepted together. The first
    threshold is infinite and accepts nothing.

    Attributes:
        fpr: False accept rate: share of the pairs of two classes that are accepted.
        tpr: True accept rate: share of the pairs of one class that are accepted.
        thresholds: Lowest accepted score at each point.

    Example:
        >>> result = hs.metrics.verification([0.9, 0.3, 0.8, 0.1], [1, 0, 1, 0], folds=2)
        >>> result.roc.tar_at(0.0)
        1.0
    """

    fpr: Tensor
    tpr: Tensor
    thresholds: Tensor

    @property
    def auc(self) -> float:
        """Area under the curve: P(score of a same pair > of a different pair) + ½ P(equal)."""
        return float(torch.trapezoid(self.tpr, self.fpr))

    @property
    def eer(self) -> float:
        """Equal error rate: where the curve, with straight lines between its points, has fpr = 1 − tpr."""
        excess = self.fpr + self.tpr - 1  # rises from −1 to 1
        after = int((excess < 0).sum())
        low, high = excess[after - 1], excess[after]
        share = -low / (high - low)
        return float(self.fpr[after - 1] + share * (self.fpr[after] - self.fpr[after - 1]))

    @overload
    def tar_at(self, far: float) -> float: ...
    @overload
    def tar_at(self, far: Tensor) -> Tensor: ...
    def tar_at(self, far: float | Tensor | Any) -> float | Tensor:
        """Return the largest true accept rate of a threshold whose false accept rate is at most ``far``.

        Nothing is interpolated. If ``far`` is below one over the number of pairs of two classes, the result is the rate
        without any false accept.

        Args:
            far: a rate in [0, 1], or a tensor, array or list of rates.

        Returns:
            The true accept rate in [0, 1]; a tensor of rates for several.
        """
        rates = check_rate("far", far)
        last = torch.searchsorted(self.fpr, rates, right=True) - 1
        found = self.tpr[last]
        return float(found) if is_number(far) else found


def roc_curve(scores: Tensor, same: Tensor) -> ROC:
    """The curve of float64 ``scores`` and booleans ``same``, of which both kinds occur."""
    thresholds, true, false = accept_counts(scores, same)
    return ROC(false / false[-1].double(), true / true[-1].double(), thresholds)


def accept_counts(scores: Tensor, same: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The thresholds ∞ and each distinct score, falling, and how many pairs of each kind have score ≥ threshold."""
    ordered, place = scores.sort(descending=True)
    last = torch.ones_like(ordered, dtype=torch.bool)
    last[:-1] = ordered[1:] != ordered[:-1]
    ends = last.nonzero().squeeze(1)
    true = same[place].long().cumsum(0)[ends]
    none = true.new_zeros(1)
    thresholds = torch.cat([ordered.new_full((1,), torch.inf), ordered[ends]])
    return thresholds, torch.cat([none, true]), torch.cat([none, ends + 1 - true])


def check_rate(argument: str, rate: float | Tensor | Any) -> Tensor:
    """``rate`` in float64 on the CPU, refused outside [0, 1].

    A tensor of lower precision stands for what rounds to it: 0.7 in float32 is below 7/10, but 7 of 10 are meant.
    """
    if is_number(rate) and not hasattr(rate, "__array__"):
        rate = float(rate)
    rates, parts = as_numbers(argument, rate), rate if isinstance(rate, list | tuple) else (rate,)
    if rates.is_floating_point() and not any(hasattr(part, "__array__") for part in parts):  # numbers of Python
        rates = torch.as_tensor(rate, dtype=torch.float64, device="cpu")
    check_floating(argument, rates)
    if not bool(((rates >= 0) & (rates <= 1)).all()):
        raise ValueError(f"{argument}={rate!r} must be a rate in [0, 1]")
    wide = rates.detach().cpu().double()
    return wide if rates.dtype == torch.float64 else (wide * (1 + torch.finfo(rates.dtype).eps / 2)).clamp_max(1.0)
