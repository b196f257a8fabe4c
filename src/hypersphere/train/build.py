"""From settings to the parts of a training, every random choice drawn from the seed."""

from __future__ import annotations

import torch
from torch import nn

from ..config import Config
from ..evaluation import check_evaluation
from ..losses.head import ClassHead
from ..runs import Facts, Team, attach, make_networks
from ..sources import Source, training_source
from .adversary import make_adversary
from .distributed import synchronize
from .gan.check import check_gan
from .gan.objective import GanObjective
from .gan.step import GanStep
from .objective import Objective
from .optimizer import make_optimizers, make_projection
from .parts import Parts
from .penalty import make_penalty
from .schedule import factors
from .shards import ClassState, shard_head
from .start import start
from .step import Step


def make_objective(config: Config, facts: Facts, seed: int, fine_tune: bool = False) -> Objective:
    """Network and head with fresh weights; orthogonal matrices attached, if the settings say so.

    ``fine_tune`` takes the weights of the run that ``model.start`` names, if it does.
    """
    torch.manual_seed(seed)
    networks = make_networks(config, facts)
    if fine_tune:
        start(networks, config, seed)
    attach(config.orthogonal, networks.model, networks.head, seed, keep=config.model.start is not None)
    if networks.generator is not None:
        return GanObjective(networks.model, networks.generator, config.gan)
    return Objective(
        networks.model,
        networks.head,
        config.loss.label_smoothing,
        hinge=config.loss.name == "hinge",
        transform=config.regularizer.transform,
    )


def make_parts(config: Config, seed: int, team: Team, source: Source | None = None) -> Parts:
    """Everything that a step needs, on the device of this process; ``source`` stands in for the data set."""
    torch.set_float32_matmul_precision(config.run.matmul)
    source = source or training_source(config, seed, team)
    check_evaluation(config, source, team)
    check_gan(config, source, team)
    objective = make_objective(config, source.facts, seed, fine_tune=True).to(team.device)
    if config.run.channels_last:
        objective.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    synchronize(objective, team)
    split = shard_head(config, objective, team)
    optimizers = make_optimizers(config.optim, objective, factors(config.schedule), team.device, split)
    model: nn.Module = objective.model
    return Parts(
        source=source,
        objective=objective,
        penalty=make_penalty(config.regularizer, config.orthogonal, model, objective.head, seed).to(team.device),
        optimizers=optimizers,
        projection=make_projection(config.optim, model),
        team=team,
        run=config.run,
        clip=config.optim.clip,
        adversary=make_adversary(config.adversarial, source, objective),
        classes=ClassState(objective.head, optimizers) if isinstance(objective.head, ClassHead) and split else None,
    )


def make_step(parts: Parts, step: int = 0, *, eager: bool = False) -> Step:
    """What trains these parts, from ``step`` on."""
    kind = GanStep if isinstance(parts.objective, GanObjective) else Step
    return kind(parts, step, eager=eager)
