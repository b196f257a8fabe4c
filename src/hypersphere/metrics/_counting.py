"""Ranks without sorting: how many scores reach a threshold, and the highest of very many that pass by in blocks."""

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


_PART = 2**20


class Tail:
    """The ``size`` highest finite scores of all that were added, as a multiset; no histogram, no rounding."""

    def __init__(self, size: int) -> None:
        self.size, self.total = size, 0
        self._buffer = torch.empty(0, device="cpu")
        self._held = 0
        self._cut: float = -torch.inf  # once full, only scores above it can matter

    def add(self, scores: Tensor, count: int | None = None) -> None:
        """Add scores of any shape, of which ``count`` (all if None) are finite; −∞ marks missing scores."""
        self.total += scores.numel() if count is None else count
        if not len(self._buffer):
            self._buffer = scores.new_empty(2 * self.size + _PART)  # one for all: small pieces would scatter memory
        for part in scores.flatten().split(_PART):  # the numbers of the chosen take more memory than the scores
            highest = part[part > self._cut]
            self._buffer[self._held : self._held + len(highest)] = highest
            self._held += len(highest)
            if self._held >= 2 * self.size:
                self._shrink()

    def highest(self) -> Tensor:
        """The highest scores in falling order, float64 on the CPU."""
        if self._held > self.size:
            self._shrink()
        return self._buffer[: self._held].sort(descending=True).values.cpu().double()

    def _shrink(self) -> None:
        """By selection: the size-th highest, those above it, and its equals up to the size."""
        held = self._buffer[: self._held]
        lowest = held.kthvalue(self._held - self.size + 1).values
        above = held[held > lowest]
        self._buffer[: len(above)] = above
        self._buffer[len(above) : self.size] = lowest
        self._held, self._cut = self.size, float(lowest)
