"""What identification gives: ranks, the CMC curve, and rates of the open set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import Tensor

from .._core.checks import check_count, is_number
from .._core.streams import Shown
from ._roc import check_rate


@dataclass(frozen=True, eq=False)
class IdentificationResult(Shown):
    """Ranks and scores of all searches; rates are fractions in [0, 1].

    Attributes:
        ranks: Rank of the mate in each search, from 1.
        scores: Cosine of the mate in each search.
        probes: Which probe each search is of.
        best_impostors: Highest cosine of a competitor, for each probe.
        impostor_tail: The highest scores of competitors, in falling order.
        impostors: Number of all scores between a probe and a competitor, of which ``impostor_tail`` holds the highest.
        unmated: Number of probes without a mate in the gallery.
        shown: The ranks for which ``rates`` has an entry, e.g. (1, 5, 10).

    Example:
        >>> result = hs.metrics.identification(torch.eye(3), [0, 1, 2], torch.eye(3), [0, 1, 2])
        >>> result.rank(1)
        1.0
    """

    ranks: Tensor
    scores: Tensor
    probes: Tensor
    best_impostors: Tensor
    impostor_tail: Tensor
    impostors: int
    unmated: int
    shown: tuple[int, ...]

    def rank(self, k: int) -> float:
        """Compute the share of searches whose mate is among the first ``k``.

        Args:
            k: rank ≥ 1: a search succeeds if the mate is among the first k.

        Returns:
            The rank-k identification rate, a fraction of all searches in [0, 1].
        """
        check_count("k", k)
        return float((self.ranks <= k).double().mean())

    @property
    def rates(self) -> dict[int, float]:
        """The rank-k rates for each k in ``shown``."""
        return {k: self.rank(k) for k in self.shown}

    @property
    def cmc(self) -> Tensor:
        """Cumulative match characteristic: entry k−1 is :meth:`rank` of k, up to the largest rank, where it is 1."""
        return torch.bincount(self.ranks)[1:].cumsum(0).double() / len(self.ranks)

    @overload
    def tar_at(self, far: float) -> float: ...
    @overload
    def tar_at(self, far: Tensor) -> Tensor: ...
    def tar_at(self, far: float | Tensor | Any) -> float | Tensor:
        """Return the largest share of mates accepted at a false accept rate of at most ``far``.

        The false accept rate is over all impostor scores, those of each probe against each of its competitors
        (MegaFace's TAR at FAR 10⁻⁶). The result is exact, from the scores themselves.

        Args:
            far: a rate in [0, 1], or a tensor, array or list of rates. One beyond the kept tail raises a ValueError.

        Returns:
            The share of accepted mates in [0, 1]; a tensor of shares for several.
        """
        rates = check_rate("far", far)
        if not self.impostors:
            raise ValueError("there are no impostor scores: pass distractors, or a gallery of several classes")
        wanted = rates.flatten().tolist()
        found = torch.tensor([self._accepted(rate) for rate in wanted], dtype=torch.float64, device="cpu")
        return float(found) if is_number(far) else found.view(rates.shape)

    def dir_at(self, fpir: float, rank: int = 1) -> float:
        """Open-set identification: the share of searches whose mate is detected and within ``rank``.

        A mate is detected if its score is above a threshold. This is the lowest threshold at which, without mates in
        the gallery, at most a share ``fpir`` of the probes would still be matched (with their best competitor).

        Args:
            fpir: false positive identification rate, in [0, 1].
            rank: largest rank at which a probe counts as identified, ≥ 1.

        Returns:
            The detection and identification rate, a fraction of all searches in [0, 1].
        """
        check_count("rank", rank)
        allowed = _allowed(float(check_rate("fpir", fpir)), len(self.best_impostors))
        falling = self.best_impostors.sort(descending=True).values
        limit = float(falling[allowed]) if allowed < len(falling) else -torch.inf
        return float(((self.ranks <= rank) & (self.scores > limit)).double().mean())

    def __repr__(self) -> str:
        shown = ", ".join(f"rank-{k}={rate:.4f}" for k, rate in self.rates.items())
        return f"IdentificationResult({shown}, {len(self.ranks)} searches, {self.impostors} impostor scores)"

    def _accepted(self, far: float) -> float:
        allowed = _allowed(far, self.impostors)
        if allowed >= self.impostors:
            return 1.0
        if allowed >= len(self.impostor_tail):
            raise ValueError(
                f"far={far} needs the {allowed + 1} highest of {self.impostors} impostor scores, but "
                f"{len(self.impostor_tail)} were kept: call identification(..., tail={allowed + 1})"
            )
        return float((self.scores > self.impostor_tail[allowed]).double().mean())


def _allowed(rate: float, total: int) -> int:
    """The largest count whose share of ``total`` is at most ``rate``, as floating-point division gives it."""
    count = int(rate * total)
    if (count + 1) / total <= rate:
        return count + 1
    return count if count / total <= rate else count - 1
