"""The highest of very many scores, kept exactly while they pass by in blocks."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Tail"]


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
        highest = scores[scores > self._cut]
        if len(highest):
            self._parts.append(highest)
            self._held += len(highest)
        if self._held >= 2 * self.size:
            self._shrink()

    def highest(self) -> Tensor:
        """The highest scores in falling order, float64 on the CPU."""
        self._shrink()
        return torch.cat(self._parts).cpu().double() if self._parts else torch.empty(0, dtype=torch.float64)

    def _shrink(self) -> None:
        if not self._parts:
            return
        kept = torch.cat(self._parts).sort(descending=True).values[: self.size].clone()
        self._parts, self._held = [kept], len(kept)
        if len(kept) == self.size:
            self._cut = float(kept[-1])
