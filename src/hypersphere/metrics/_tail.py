"""The highest of very many scores, kept exactly while they pass by in blocks."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Tail"]

_PART = 2**20


class Tail:
    """The ``size`` highest finite scores of all that were added, as a multiset; no histogram, no rounding."""

    def __init__(self, size: int) -> None:
        self.size, self.total = size, 0
        self._parts: list[Tensor] = []
        self._held = 0
        self._cut: float = -torch.inf  # once full, only scores above it can matter

    def add(self, scores: Tensor, count: int | None = None) -> None:
        """Add scores of any shape, of which ``count`` (all if None) are finite; −∞ marks what is no score."""
        self.total += scores.numel() if count is None else count
        for part in scores.flatten().split(_PART):  # the numbers of the chosen take more memory than the scores
            highest = part[part > self._cut]
            if len(highest):
                self._parts.append(highest)
                self._held += len(highest)
            if self._held >= 2 * self.size:
                self._shrink()

    def highest(self) -> Tensor:
        """The highest scores in falling order, float64 on the CPU."""
        self._shrink()
        if not self._parts:
            return torch.empty(0, dtype=torch.float64)
        return self._parts[0].sort(descending=True).values.cpu().double()

    def _shrink(self) -> None:
        if not self._parts:
            return
        kept = torch.cat(self._parts)
        if len(kept) >= self.size:  # by selection: the size-th highest, those above it, and its equals up to the size
            lowest = kept.kthvalue(len(kept) - self.size + 1).values
            above = kept[kept > lowest]
            kept = torch.cat([above, lowest.expand(self.size - len(above))])
            self._cut = float(lowest)
        self._parts, self._held = [kept], len(kept)
