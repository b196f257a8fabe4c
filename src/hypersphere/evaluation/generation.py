"""What a GAN has learned: how well its images are told from real ones, and their inception score (thesis D.7)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..config import Config
from ..data.loader import IGNORE
from ..metrics import inception_score
from ..runs import Gan, Team
from ..runs.gan import to_pixels
from ..runs.quantities import Quantity
from ..sources import Source
from .candidate import Candidate
from .inception import is_file, make_scorer
from .measurement import measurement


def _words(config: Config) -> str:
    return "how well the discriminator tells generated images from real ones, and their inception score"


def _check_real(config: Config, source: Source, team: Team) -> None:
    if config.gan.generator is None:
        raise ValueError(
            "evaluation.also: real_inception scores real images beside those of a GAN, and this run is not a GAN"
        )


@measurement(
    "generation",
    label="Accuracy of the discriminator",
    about="images of a GAN: how well the discriminator tells them from real ones, and their inception score",
    protocol=True,
    also=False,
    suits=("gan",),
    quantities=(
        Quantity("inception_score", "Inception score", "", True, short="inception {:.2f}"),
        Quantity("inception_std", "Standard deviation of the inception score"),
        Quantity("classifier_score", "Score by a classifier", "", True, short="score {:.2f}"),
        Quantity("classifier_std", "Standard deviation of the score by a classifier"),
    ),
    words=_words,
)
def generation(candidate: Candidate) -> dict[str, float]:
    """``accuracy``: how many real test images and as many generated ones the discriminator gets right, in percent.

    It does not measure quality: 50 is a draw, 100 means that every generated image is recognised. With
    ``evaluation.inception`` also the ``inception_score`` of ``evaluation.samples`` images in ``evaluation.splits``
    splits, and ``inception_std``; by the run of a classifier they are ``classifier_score`` and ``classifier_std``, for
    they compare with each other only.
    """
    network, team = _gan(candidate), candidate.team
    noise = torch.Generator().manual_seed(0)
    sums = torch.zeros(2, dtype=torch.float64, device=team.device)
    for inputs, labels in candidate.source.test():
        counted = labels != IGNORE
        fake = network(_noise(candidate, noise, len(labels)))
        right = (network.discriminator(inputs[0]) > 0).sum(1) + (network.discriminator(fake) <= 0).sum(1)
        sums += torch.stack([(right * counted).sum().double(), 2.0 * counted.sum().double()])
    hits, images = team.sum(sums).tolist()
    found = {"accuracy": 100 * hits / max(images, 1)}
    if candidate.config.evaluation.inception is not None:
        found |= _score(candidate, _generated(candidate, network))
    return found


@measurement(
    "real_inception",
    label="Inception score of the test images",
    about="inception score of the real test images, beside that of a GAN",
    quantities=(Quantity("real_*", "{} of the test images"),),
    check=_check_real,
)
def real_inception(candidate: Candidate) -> dict[str, float]:
    """``real_inception_score`` and ``real_inception_std`` of the test images themselves, by the same network.

    As with generated images, nothing without ``evaluation.inception``.
    """
    if candidate.config.evaluation.inception is None:
        return {}
    real = ((inputs[0], labels != IGNORE) for inputs, labels in candidate.source.test())
    return {f"real_{name}": value for name, value in _score(candidate, real).items()}


def _score(candidate: Candidate, batches: Iterator[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Of images and which of them count; the processes hold consecutive rows of each batch."""
    scorer = make_scorer(candidate.config, candidate.source.facts, candidate.team.device)
    rows: list[Tensor] = []
    kept: list[Tensor] = []
    for images, counted in batches:
        rows += candidate.team.gather(scorer(to_pixels(images)))
        kept += candidate.team.gather(counted.long())
    logits = torch.cat(rows)[torch.cat(kept) > 0]
    result = inception_score(logits, splits=candidate.config.evaluation.splits)
    kind = "inception" if is_file(candidate.config) else "classifier"
    return {f"{kind}_score": result.score, f"{kind}_std": result.std}


def _generated(candidate: Candidate, network: Gan) -> Iterator[tuple[Tensor, Tensor]]:
    """This process's rows of the images that are scored, batch by batch."""
    noise = torch.Generator().manual_seed(1)
    samples, team = candidate.config.evaluation.samples, candidate.team
    own = -(-candidate.config.data.eval_batch_size // team.world)
    for first in range(0, samples, own * team.world):
        rows = min(own, -(-(samples - first) // team.world))
        place = torch.arange(rows, device=team.device) + first + team.rank * rows
        yield network(_noise(candidate, noise, rows)), place < samples


def _noise(candidate: Candidate, generator: torch.Generator, rows: int) -> Tensor:
    """This process's rows of the noise for a batch of all processes."""
    team = candidate.team
    every = torch.randn(team.world * rows, candidate.config.gan.latent, generator=generator, device="cpu")
    return every[team.rank * rows : (team.rank + 1) * rows].to(team.device)


def _gan(candidate: Candidate) -> Gan:
    if not isinstance(candidate.network, Gan):
        raise ValueError("evaluation.protocol='generation' evaluates a GAN: this run has no generator")
    return candidate.network
