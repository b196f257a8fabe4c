"""Ranks without sorting: how many scores of a row reach each of that row's own thresholds."""

from __future__ import annotations

import torch
from torch import Tensor


def count_at_least(scores: Tensor, thresholds: Tensor) -> Tensor:
    """For rows of ``scores`` (p, n) and rising ``thresholds`` (p, m): #{j : score_ij ≥ threshold_ik}, (p, m) int64.

    One threshold is a comparison. More are a search of each score among the m thresholds and a histogram of what it
    reached: O(n log m) a row, where sorting the row would be O(n log n).
    """
    if thresholds.shape[1] == 1:
        return (scores >= thresholds).sum(1, keepdim=True)
    width = thresholds.shape[1] + 1
    reached = torch.searchsorted(thresholds, scores, right=True)
    reached += torch.arange(len(scores), device=scores.device)[:, None] * width
    counts = torch.bincount(reached.flatten(), minlength=len(scores) * width).view(len(scores), width)
    return counts.flip(1).cumsum(1).flip(1)[:, 1:]


class Groups:
    """Rows by the group they belong to."""

    def __init__(self, groups: Tensor) -> None:
        self._order = groups.argsort(stable=True)
        self._ordered = groups[self._order]

    def members(self, wanted: Tensor) -> tuple[Tensor, Tensor]:
        """The members of each group ``wanted`` (p,): row numbers (p, m), and which of them are real.

        m is the size of the largest group asked for (at least 1); smaller groups are padded with some row.
        """
        first = torch.searchsorted(self._ordered, wanted)
        size = torch.searchsorted(self._ordered, wanted, right=True) - first
        place = torch.arange(max(1, int(size.max())), device=wanted.device)
        real = place < size[:, None]
        return self._order[torch.where(real, first[:, None] + place, 0)], real

    def places(self) -> tuple[Tensor, int]:
        """The place of each row within its group, (n,), and the size of the largest group."""
        number = torch.arange(len(self._order), device=self._order.device)
        place = number - torch.searchsorted(self._ordered, self._ordered)
        return torch.empty_like(place).scatter_(0, self._order, place), int(place.max()) + 1
