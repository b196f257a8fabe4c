"""From settings to the parts of a training, every random choice drawn from the seed."""

from __future__ import annotations

import torch
from torch import nn

from .adversary import make_adversary
from .checks import check_judging
from .config import Config
from .data import Facts, Source
from .distributed import Team
from .gan.check import check_gan
from .gan.objective import GanObjective, make_gan
from .gan.step import GanStep
from .judge_source import judged_source
from .model import attach, make_model
from .objective import Objective, make_head
from .optimizer import make_optimizers, make_projection
from .penalty import make_penalty
from .schedule import factors
from .start import start
from .step import Parts, Step

__all__ = ["make_objective", "make_parts", "make_step"]


def make_objective(config: Config, facts: Facts, seed: int, fine_tune: bool = False) -> Objective:
    """Network and head with fresh weights; orthogonal matrices attached, if the settings say so.

    ``fine_tune`` takes the weights of the run that ``model.start`` names, if it does.
    """
    torch.manual_seed(seed)
    objective = make_gan(config, facts) if config.gan.generator is not None else _make_classifier(config, facts)
    if fine_tune:
        start(objective, config, seed)
    attach(config.orthogonal, objective.model, objective.head, seed, keep=config.model.start is not None)
    return objective


def _make_classifier(config: Config, facts: Facts) -> Objective:
    plain = config.loss.own_classifier
    model = make_model(config.model, facts, classifier=plain)
    features = 0 if plain else int(model.feature_dim)  # type: ignore[arg-type]
    head = make_head(config.loss, features, facts.num_classes)
    hinge = config.loss.name == "hinge"
    return Objective(model, head, config.loss.label_smoothing, hinge=hinge, transform=config.regularizer.transform)


def make_parts(config: Config, seed: int, team: Team, source: Source | None = None) -> Parts:
    """Everything that a step needs, on the device of this process; ``source`` stands in for the data set."""
    torch.set_float32_matmul_precision(config.run.matmul)
    source = source or judged_source(config, seed, team)
    check_judging(config, source, team)
    check_gan(config, source, team)
    objective = make_objective(config, source.facts, seed, fine_tune=True).to(team.device)
    if config.run.channels_last:
        objective.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    team.synchronize(objective)
    model: nn.Module = objective.model
    return Parts(
        source=source,
        objective=objective,
        penalty=make_penalty(config.regularizer, config.orthogonal, model, objective.head, seed).to(team.device),
        optimizers=make_optimizers(config.optim, objective, factors(config.schedule), team.device),
        projection=make_projection(config.optim, model),
        team=team,
        run=config.run,
        clip=config.optim.clip,
        adversary=make_adversary(config.adversarial, source, objective),
    )


def make_step(parts: Parts, step: int = 0, *, eager: bool = False) -> Step:
    """What trains these parts, from ``step`` on."""
    kind = GanStep if isinstance(parts.objective, GanObjective) else Step
    return kind(parts, step, eager=eager)
