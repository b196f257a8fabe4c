"""Who is it? Among all others, among distractors as MegaFace has it, or in a gallery with one sample of each class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from .. import metrics
from ..config import Config
from ..runs.quantities import Quantity
from ..sources import Elsewhere
from .candidate import Candidate
from .measurement import measurement
from .verification import place_and_aids

RANKS = (1, 5, 10)
FAR = 1e-6


def _words(config: Config) -> str:
    where, aids = place_and_aids(config.evaluation)
    return f"identification of unseen classes among distractors{where}{aids}"


@measurement(
    "identification",
    label="Identification rate",
    about="each sample of unseen classes searched among all others, or among distractors",
    protocol=True,
    also=False,
    suits=("open",),
    quantities=(
        Quantity("rank*", "Rank-{} identification rate", "%", True),
        Quantity("tar", "True accepts at a false accept rate of 1e-6", "%", True),
    ),
    words=_words,
)
def identification(candidate: Candidate) -> dict[str, float]:
    """Cosine of the features: rates at ranks 1, 5 and 10, and the true accept rate, in percent.

    They are ``rank1`` (also ``accuracy``), ``rank5``, ``rank10``, and ``tar`` at a false accept rate of 10⁻⁶. With
    distractors (``evaluation.data`` megaface) each pair of images of one person is searched among the distractors
    alone (thesis 2.3.6); without, each test sample among all others.
    """
    config, source = candidate.config.evaluation, candidate.source
    features, labels = candidate.embedding(config.flip)
    if isinstance(source, Elsewhere) and source.distractors is not None:
        others = _distractors(candidate, source)
        found = metrics.identification(features, labels, distractors=others, ranks=RANKS, protocol="megaface")
    else:
        found = metrics.identification(features, labels, ranks=RANKS)
    rates = {f"rank{k}": 100 * found.rank(k) for k in RANKS}
    return {"accuracy": rates["rank1"], **rates, "tar": 100 * found.tar_at(FAR)}


def _gallery_details(candidate: Candidate) -> dict[str, Any]:
    samples, probes = _split(candidate.outputs.labels)
    return {"probes": len(probes), "gallery": len(samples)}


@measurement(
    "gallery",
    label="Identification in a gallery",
    about="the first sample of each unseen class is its gallery, the others are probes",
    suits=("open",),
    quantities=(Quantity("gallery_rank*", "Rank-{} rate in a gallery", "%", True),),
    details=_gallery_details,
)
def gallery(candidate: Candidate) -> dict[str, float]:
    """``gallery_rank1``, ... and the open-set true accept rate ``gallery_tar@0.01``, in percent.

    The first test sample of each class is its gallery, every other one a probe.
    """
    features, labels = candidate.embedding()
    chosen, probes = _split(labels)
    found = metrics.identification(features[probes], labels[probes], features[chosen], labels[chosen])
    ranks = {f"gallery_rank{k}": 100 * value for k, value in found.rates.items()}
    return {**ranks, "gallery_tar@0.01": 100 * found.tar_at(1e-2)}


def _split(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Positions of the first sample of each class, and of the others."""
    order = torch.argsort(labels, stable=True)
    first = torch.ones(len(labels), dtype=torch.bool)
    first[1:] = labels[order][1:] != labels[order][:-1]
    chosen, probes = order[first], order[~first]
    if len(chosen) < 2 or not len(probes):
        raise ValueError("identification in a gallery needs two classes, and a class with two samples or more")
    return chosen, probes


def _distractors(candidate: Candidate, source: Elsewhere) -> Iterator[Tensor]:
    """Their features block by block; only a block is in memory."""
    if source.distractors is not None:
        for features, _ in candidate.embedded(source.distractors.batches(), candidate.config.evaluation.flip):
            yield features
