"""Who is it? Probes searched in a gallery with any number of distractors, exactly and in blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .._core.arrays import as_numbers, takes_arrays
from .._core.checks import check_choice, check_count
from .._core.modes import without_autocast
from ._counting import Groups, Tail, count_at_least
from ._identification_result import IdentificationResult
from ._inputs import check_beside, check_dimensions, check_features, check_labels, directions, rows_within

Blocks: TypeAlias = Tensor | Iterable[Tensor] | Any
"""Rows: a tensor, a NumPy array or memory map, or an iterable of blocks (b, d)."""


@takes_arrays("probes", "gallery", labels=("probe_labels", "gallery_labels"))
@torch.no_grad()
def identification(
    probes: Tensor,
    probe_labels: Tensor,
    gallery: Tensor | None = None,
    gallery_labels: Tensor | None = None,
    distractors: Blocks | None = None,
    ranks: tuple[int, ...] = (1, 5, 10),
    *,
    protocol: str = "closest",
    block: int = 4096,
    tail: int = 2**20,
) -> IdentificationResult:
    """Rank of the mate of each probe by cosine among gallery and distractors.

    rank = 1 + #{competitors whose cosine is at least the mate's}: a tie counts against the probe, so a network whose
    features are all equal identifies nobody. Cosines are compared as computed, in float32 (in float64 for float64
    features). Two protocols:

    - ``"closest"``, the usual closed-set CMC: each probe is one search. Its mate is the most similar gallery row with
      its label; its competitors are all gallery rows of other labels and all distractors.
    - ``"megaface"``: each pair of a probe and one of its mates is one search, whose competitors are the distractors
      only (thesis ch. 2: MegaFace, rank-1 with a million distractors).

    Only blocks of scores exist at a time: memory does not grow with the number of distractors.

    Args:
        probes: embeddings (P, d). A probe without a mate is not ranked but counted in ``unmated``, and its competitors
            are impostors like all others.
        probe_labels: identity of each probe, (P,), as integers.
        gallery: embeddings (G, d); None takes the probes themselves, where no probe is its own mate.
        gallery_labels: label of each row of the gallery, (G,).
        distractors: embeddings of people who are mates of no probe: a tensor of any floating dtype (also
            memory-mapped), a NumPy array or memory map, a list of rows, or an iterable of blocks (b, d), read once.
        ranks: the ranks shown in ``rates``; the method ``rank`` of the result computes any other.
        protocol: which competitors a mate is ranked among: ``"closest"`` or ``"megaface"``, see the list above.
        block: how many rows are compared at a time.
        tail: how many of the highest impostor scores are kept. False accept rates up to ``tail`` over the number of
            impostor scores are then exact; higher ones raise a ValueError.

    Returns:
        The rank and score of every search.

    Raises:
        ValueError: If no probe has a mate in the gallery, dimensions differ, embeddings are not finite, or
            ``"megaface"`` is asked for without distractors.
        TypeError: If ``distractors`` gives something that is not a tensor or array.

    Example:
        >>> result = hs.metrics.identification(torch.eye(3), [0, 1, 2], torch.eye(3), [0, 1, 2])
        >>> result.ranks
        tensor([1, 1, 1])
    """
    check_choice("protocol", protocol, ("closest", "megaface"))
    check_count("block", block)
    check_count("tail", tail)
    shown = tuple(check_count("ranks", rank) for rank in ranks)
    checked = check_features("probes", probes)
    owner = check_labels("probe_labels", probe_labels, len(checked)).to(checked.device)
    itself = gallery is None
    gallery, names = check_beside("gallery", gallery, "gallery_labels", gallery_labels, ("probes", checked, owner))
    if protocol == "megaface" and distractors is None:
        raise ValueError("protocol='megaface' ranks a mate among distractors: pass distractors=")
    search = _Search(directions(checked), owner, protocol == "megaface", tail)
    search.find_mates(gallery, names, itself, block)
    if protocol == "closest":
        search.against_gallery(gallery, names, block)
    first = 0
    for rows in () if distractors is None else _blocks(distractors, block):
        part = check_features("distractors", rows, first, empty=True)
        check_dimensions("distractors", part, "probes", checked)
        search.against(part)
        first += len(part)
    if distractors is not None and not first:
        raise ValueError("distractors is empty: pass None for no distractors")
    return search.result(shown)


class _Search:
    """The state of all searches while blocks of competitors pass by."""

    def __init__(self, probes: Tensor, owner: Tensor, every_mate: bool, tail: int) -> None:
        self.probes, self.owner, self.every_mate = probes, owner, every_mate
        self.tail = Tail(tail)
        self.best = probes.new_full((len(probes),), -torch.inf)  # the best competitor of each probe

    def find_mates(self, gallery: Tensor, names: Tensor, itself: bool, block: int) -> None:
        """Scores of the mates in rising order, (P, m), padded with ∞, which no competitor reaches.

        By the same product as the competitors, so that equal rows have equal scores.
        """
        slot, most = Groups(names).places()
        number = torch.arange(len(names), device=names.device)
        mates = self.probes.new_full((len(self.probes), most if self.every_mate else 1), -torch.inf)
        for here, columns, scores in self._scores(gallery, block):
            own = self.owner[here, None] == names[columns]
            if itself:
                own &= number[here, None] != number[columns]
            if self.every_mate:
                row, column = own.nonzero(as_tuple=True)
                mates[here][row, slot[columns][column]] = scores[row, column]
            else:
                best = scores.masked_fill_(~own, -torch.inf).amax(1, keepdim=True)
                mates[here] = mates[here].maximum(best)
        if not bool(mates.isfinite().any()):
            raise ValueError("no probe has a mate in the gallery: do the labels of both name the same classes?")
        self.mates = mates.masked_fill_(mates == -torch.inf, torch.inf).sort(1).values
        self.ahead = torch.zeros_like(self.mates, dtype=torch.int64)

    def against_gallery(self, gallery: Tensor, names: Tensor, block: int) -> None:
        """Gallery rows of other names are competitors."""
        for here, columns, scores in self._scores(gallery, block):
            own = self.owner[here, None] == names[columns]
            self._count(here, scores.masked_fill_(own, -torch.inf), own.numel() - int(own.sum()))

    def against(self, distractors: Tensor) -> None:
        """Every distractor is a competitor."""
        for here, _, scores in self._scores(distractors, len(distractors)):
            self._count(here, scores, scores.numel())

    def _scores(self, rows: Tensor, block: int) -> Iterator[tuple[slice, slice, Tensor]]:
        """Cosines of a slice of probes and a slice of rows, until all have met."""
        for start in range(0, len(rows), max(block, 1)):
            columns = slice(start, min(start + block, len(rows)))
            part = directions(rows[columns].to(self.probes.device)).to(self.probes.dtype)
            step = rows_within(len(part))
            for first in range(0, len(self.probes), step):
                here = slice(first, min(first + step, len(self.probes)))
                with without_autocast(part.device):
                    scores = self.probes[here] @ part.mT
                yield here, columns, scores

    def _count(self, here: slice, scores: Tensor, count: int) -> None:
        self.ahead[here] += count_at_least(scores, self.mates[here])
        self.best[here] = self.best[here].maximum(scores.amax(1))
        self.tail.add(scores, count)

    def result(self, ranks: tuple[int, ...]) -> IdentificationResult:
        real = self.mates.isfinite()
        return IdentificationResult(
            ranks=(1 + self.ahead[real]).cpu(),
            scores=self.mates[real].cpu().double(),
            probes=real.nonzero()[:, 0].cpu(),
            best_impostors=self.best.cpu().double(),
            impostor_tail=self.tail.highest(),
            impostors=self.tail.total,
            unmated=int((~real.any(1)).sum()),
            shown=ranks,
        )


def _blocks(rows: Any, size: int) -> Iterator[Tensor]:
    """Blocks of at most ``size`` rows of a tensor, an array or an iterable of either."""
    if isinstance(rows, list | tuple) and rows and isinstance(rows[0], list | tuple):
        rows = as_numbers("distractors", rows)
    if isinstance(rows, Tensor) or hasattr(rows, "shape"):
        if len(rows.shape) != 2:
            raise ValueError(f"distractors has shape {tuple(rows.shape)}: pass embeddings as rows, (n, d)")
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            yield as_numbers("distractors", part)
        return
    if not isinstance(rows, Iterable):
        raise TypeError(f"distractors must be a tensor, an array or an iterable of blocks, not {type(rows).__name__}")
    for part in rows:
        if not hasattr(part, "shape"):
            raise TypeError(f"distractors gave a {type(part).__name__}: each block must be a tensor or an array (b, d)")
        yield from _blocks(part, size)
