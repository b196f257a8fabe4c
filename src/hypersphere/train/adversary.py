"""Adversarial training: every batch is joined or replaced by its attacked copy (thesis 4.6.2)."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from .. import attacks
from ..config import AdversarialConfig
from ..evaluation import make_attack
from ..runs import Team
from ..sources import Source
from .objective import Objective

Adversary = Callable[[tuple[Tensor, ...], Tensor], tuple[tuple[Tensor, ...], Tensor]]


def make_adversary(config: AdversarialConfig, source: Source, objective: Objective, team: Team) -> Adversary | None:
    """What turns a batch into the one that is trained on; None for natural training.

    Raises:
        ValueError: If the first samples of a batch that several processes share would be replaced.
    """
    if config.train is None:
        return None
    if config.mixture == "replace" and config.fraction < 1 and team.world > 1:
        raise ValueError(
            f"adversarial.fraction={config.fraction} replaces the first samples of a batch, of which each of "
            f"{team.world} processes has a part: train in one process, or use adversarial.mixture=both"
        )
    loss: str | nn.Module = config.losses[0] if objective.head is None else objective.head
    attack = make_attack(config.train, config, source, loss=loss, check=False)

    def adversary(inputs: tuple[Tensor, ...], labels: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        x, labels = attacks.adversarial_batch(
            objective.model, inputs[0], labels, attack, mixture=config.mixture, fraction=config.fraction
        )
        return (x,), labels

    return adversary
