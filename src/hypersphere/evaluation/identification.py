"""Identification: who is it, among all others? With distractors as MegaFace has it."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from ...metrics import identification as identify
from ..judge_source import Elsewhere
from .judged import Judged

__all__ = ["FAR", "RANKS", "identification"]

RANKS = (1, 5, 10)
FAR = 1e-6


def identification(judged: Judged) -> dict[str, float]:
    """Cosine of the features; all in percent: ``rank1`` (also ``accuracy``), ``rank5``, ``rank10``, and ``tar``, the
    true accept rate at a false accept rate of 10⁻⁶.

    With distractors (``evaluation.data`` megaface) each pair of images of one person is searched among the distractors
    alone (thesis 2.3.6); without, each test sample among all others.
    """
    config, source = judged.config.evaluation, judged.source
    features, labels = judged.embedding(config.flip)
    if isinstance(source, Elsewhere) and source.distractors is not None:
        found = identify(features, labels, distractors=_distractors(judged, source), ranks=RANKS, protocol="megaface")
    else:
        found = identify(features, labels, ranks=RANKS)
    rates = {f"rank{k}": 100 * found.rank(k) for k in RANKS}
    return {"accuracy": rates["rank1"], **rates, "tar": 100 * found.tar_at(FAR)}


def _distractors(judged: Judged, source: Elsewhere) -> Iterator[Tensor]:
    """Their features block by block; only a block is in memory."""
    if source.distractors is not None:
        for features, _ in judged.embedded(source.distractors.batches(), judged.config.evaluation.flip):
            yield features
