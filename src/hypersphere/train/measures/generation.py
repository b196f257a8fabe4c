"""What a GAN has learned: how well its images are told from real ones, and their inception score (thesis D.7)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ...data.loader import IGNORE
from ...metrics import inception_score
from ..gan.objective import Gan, to_pixels
from ..gan.scorer import make_scorer
from .judged import Judged

__all__ = ["generation", "real_inception"]


def generation(judged: Judged) -> dict[str, float]:
    """``accuracy``: how many real test images and as many generated ones the discriminator gets right, in percent.

    That is no measure of quality: 50 is a draw, 100 a generator that fools nobody. With ``evaluation.inception`` also
    the ``inception_score`` of ``evaluation.samples`` images in ``evaluation.splits`` splits, and ``inception_std``.
    """
    network = _gan(judged)
    noise = torch.Generator().manual_seed(judged.team.rank)
    sums = torch.zeros(2, dtype=torch.float64, device=judged.team.device)
    for inputs, labels in judged.source.test():
        real = inputs[0][labels != IGNORE]
        fake = network.sample(len(real), noise)
        right = (network.discriminator(real) > 0).sum() + (network.discriminator(fake) <= 0).sum()
        sums += torch.stack([right.double(), torch.tensor(2.0 * len(real), dtype=torch.float64, device=sums.device)])
    right, images = judged.team.sum(sums).tolist()
    found = {"accuracy": 100 * right / max(images, 1)}
    if judged.config.evaluation.inception is not None:
        found |= _score(judged, _generated(judged, network))
    return found


def real_inception(judged: Judged) -> dict[str, float]:
    """``real_inception_score`` and ``real_inception_std`` of the test images themselves, by the same classifier.

    As with generated images, nothing without ``evaluation.inception``.
    """
    if judged.config.evaluation.inception is None:
        return {}
    real = (inputs[0][labels != IGNORE] for inputs, labels in judged.source.test())
    return {f"real_{name}": value for name, value in _score(judged, real).items()}


def _score(judged: Judged, batches: Iterator[Tensor]) -> dict[str, float]:
    scorer = make_scorer(judged.config, judged.source.facts, judged.team.device)
    logits = [scorer(to_pixels(images)).cpu() for images in batches]
    result = inception_score(_everyones(judged, torch.cat(logits)), splits=judged.config.evaluation.splits)
    return {"inception_score": result.score, "inception_std": result.std}


def _generated(judged: Judged, network: Gan) -> Iterator[Tensor]:
    """This process's share of the images, in batches."""
    noise = torch.Generator().manual_seed(2**16 + judged.team.rank)
    left = -(-judged.config.evaluation.samples // judged.team.world)
    while left > 0:
        count = min(left, judged.config.data.eval_batch_size)
        yield network.sample(count, noise)
        left -= count


def _everyones(judged: Judged, logits: Tensor) -> Tensor:
    """The rows of all processes, which may hold different numbers of them."""
    team = judged.team
    counts = [int(count) for count in team.gather(torch.tensor([len(logits)]))]
    filled = torch.zeros(max(counts), logits.shape[1])
    filled[: len(logits)] = logits
    return torch.cat([rows[:count] for rows, count in zip(team.gather(filled), counts, strict=True)])


def _gan(judged: Judged) -> Gan:
    if not isinstance(judged.network, Gan):
        raise ValueError("evaluation.protocol='generation' judges a GAN: this run has no generator")
    return judged.network
