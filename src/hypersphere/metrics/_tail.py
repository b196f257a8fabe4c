"""The highest of very many scores, kept exactly while they pass by in blocks."""

from __future__ import annotations

import torch
from torch import Tensor

_PART = 2**20


class Tail:
    """The ``size`` highest finite scores of all that were added, as a multiset; no histogram, no rounding."""

    def __init__(self, size: int) -> None:
        self.size, self.total = size, 0
        self._buffer = torch.empty(0)
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
