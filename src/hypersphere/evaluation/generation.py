"""What a GAN has learned: how well its images are told from real ones, and their inception score (thesis D.7)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ...data.loader import IGNORE
from ...metrics import inception_score
from ..gan.objective import Gan, to_pixels
from ..gan.scorer import is_file, make_scorer
from .judged import Judged

__all__ = ["generation", "real_inception"]


def generation(judged: Judged) -> dict[str, float]:
    """``accuracy``: how many real test images and as many generated ones the discriminator gets right, in percent.

    That is no measure of quality: 50 is a draw, 100 a generator that fools nobody. With ``evaluation.inception`` also
    the ``inception_score`` of ``evaluation.samples`` images in ``evaluation.splits`` splits, and ``inception_std``; by
    the run of a classifier they are ``classifier_score`` and ``classifier_std``, for they compare with each other only.
    """
    network, team = _gan(judged), judged.team
    noise = torch.Generator().manual_seed(0)
    sums = torch.zeros(2, dtype=torch.float64, device=team.device)
    for inputs, labels in judged.source.test():
        counted = labels != IGNORE
        fake = network(_noise(judged, noise, len(labels)))
        right = (network.discriminator(inputs[0]) > 0).sum(1) + (network.discriminator(fake) <= 0).sum(1)
        sums += torch.stack([(right * counted).sum().double(), 2.0 * counted.sum().double()])
    hits, images = team.sum(sums).tolist()
    found = {"accuracy": 100 * hits / max(images, 1)}
    if judged.config.evaluation.inception is not None:
        found |= _score(judged, _generated(judged, network))
    return found


def real_inception(judged: Judged) -> dict[str, float]:
    """``real_inception_score`` and ``real_inception_std`` of the test images themselves, by the same network.

    As with generated images, nothing without ``evaluation.inception``.
    """
    if judged.config.evaluation.inception is None:
        return {}
    real = ((inputs[0], labels != IGNORE) for inputs, labels in judged.source.test())
    return {f"real_{name}": value for name, value in _score(judged, real).items()}


def _score(judged: Judged, batches: Iterator[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Of images and which of them count; the processes hold consecutive rows of each batch."""
    scorer = make_scorer(judged.config, judged.source.facts, judged.team.device)
    rows: list[Tensor] = []
    kept: list[Tensor] = []
    for images, counted in batches:
        rows += judged.team.gather(scorer(to_pixels(images)))
        kept += judged.team.gather(counted.long())
    logits = torch.cat(rows)[torch.cat(kept) > 0]
    result = inception_score(logits, splits=judged.config.evaluation.splits)
    kind = "inception" if is_file(judged.config) else "classifier"
    return {f"{kind}_score": result.score, f"{kind}_std": result.std}


def _generated(judged: Judged, network: Gan) -> Iterator[tuple[Tensor, Tensor]]:
    """This process's rows of the images that are scored, batch by batch."""
    noise = torch.Generator().manual_seed(1)
    samples, team = judged.config.evaluation.samples, judged.team
    own = -(-judged.config.data.eval_batch_size // team.world)
    for first in range(0, samples, own * team.world):
        rows = min(own, -(-(samples - first) // team.world))
        place = torch.arange(rows, device=team.device) + first + team.rank * rows
        yield network(_noise(judged, noise, rows)), place < samples


def _noise(judged: Judged, generator: torch.Generator, rows: int) -> Tensor:
    """This process's rows of the noise for a batch of all processes."""
    team = judged.team
    every = torch.randn(team.world * rows, judged.config.gan.latent, generator=generator)
    return every[team.rank * rows : (team.rank + 1) * rows].to(team.device)


def _gan(judged: Judged) -> Gan:
    if not isinstance(judged.network, Gan):
        raise ValueError("evaluation.protocol='generation' judges a GAN: this run has no generator")
    return judged.network
