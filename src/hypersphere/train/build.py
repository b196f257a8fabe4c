"""From settings to the parts of a training, every random choice drawn from the seed.

Fine-tuning takes the weights of another run where they fit, e.g. those of a CNN in its decoupled twin (thesis 4.4.3).
"""

from __future__ import annotations

import math

import torch
from torch import nn

from .._core.modes import modes_kept
from .._core.registries import MODELS
from ..config import Config, ScheduleConfig
from ..evaluation import check_evaluation
from ..evaluation.robustness import check_other
from ..losses.head import ClassHead
from ..models.entry import Entry
from ..runs import Facts, Networks, Run, Team, attach, beside, make_networks
from ..runs.manifest import fits
from ..runs.model import feature_dim
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
from .shards import ClassState, shard_head
from .step import Step


def make_objective(config: Config, facts: Facts, seed: int, fine_tune: bool = False) -> Objective:
    """Network and head with fresh weights; orthogonal matrices attached, if the settings say so.

    ``fine_tune`` takes the weights of the run that ``model.start`` names, if it does.
    """
    torch.manual_seed(seed)
    networks = make_networks(config, facts)
    ours = isinstance(MODELS.find(config.model.name, "model.name"), Entry) or networks.generator is not None
    if not ours and facts.image_size is not None:
        _check_outputs(config, facts, networks)
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


@torch.no_grad()
def _check_outputs(config: Config, facts: Facts, networks: Networks) -> None:
    """Raise ValueError if a network of the user's own does not give what its classes, or the head, need."""
    own = networks.head is None
    wanted = (2, facts.num_classes if own else feature_dim(networks.model, config.model.name))
    try:
        with modes_kept(networks.model):
            out = networks.model.eval()(torch.zeros(2, facts.in_channels or 1, *(facts.image_size or ())))
    except Exception:  # it may need a GPU, or autocast: the first step will tell
        return
    shape = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
    if shape != wanted:
        needs = "logits (N, num_classes)" if own else "under a head, made with num_classes=0, features (N, feature_dim)"
        raise ValueError(
            f"model.name={config.model.name!r} gives {shape} for a batch of two images, not {wanted}: it must return "
            f"{needs}"
        )


def make_parts(config: Config, seed: int, team: Team, source: Source | None = None) -> Parts:
    """Everything that a step needs, on the device of this process; ``source`` stands in for the data set."""
    torch.set_float32_matmul_precision(config.run.matmul)
    source = source or training_source(config, seed, team)
    check_evaluation(config, source, team)
    check_other(config, seed)
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
        adversary=make_adversary(config.adversarial, source, objective, team),
        classes=ClassState(objective.head, optimizers) if isinstance(objective.head, ClassHead) and split else None,
    )


def make_step(parts: Parts, step: int = 0, *, eager: bool = False) -> Step:
    """What trains these parts, from ``step`` on."""
    kind = GanStep if isinstance(parts.objective, GanObjective) else Step
    return kind(parts, step, eager=eager)


def start(networks: Networks, config: Config, seed: int = 0) -> None:
    """Copy them in place, if ``model.start`` names a run; at least the hidden layers must fit.

    They are those of the same seed where that run has it, else of its first.
    """
    name = config.model.start
    if name is None:
        return
    place = beside(config, name)
    if not place.exists():
        raise ValueError(
            f"model.start={name!r} is no run in {config.run.folder}, nor a folder: move it there, or train it"
        )
    run = Run(place)
    folder = run.folder(seed if seed in run.seeds else None)
    if not folder.weights_path.exists():
        raise ValueError(f"model.start={name!r}: {folder.weights_path} does not exist: finish training that run first")
    trained = folder.weights()
    own = networks.classifier().state_dict()
    for key in own:
        if key not in trained and (found := next((one for one in _elsewhere(key) if one in trained), None)):
            trained[key] = trained[found]
    fitting = [key for key, value in own.items() if key in trained and fits(trained[key], value)]
    missing = [key for key in _hidden_weights(networks) if key not in fitting]
    fix = "start from a run of the same network, or leave model.start out"
    if missing:
        shape = tuple(own[missing[0]].shape)
        raise ValueError(f"model.start={name!r} does not fit: it has no {missing[0]} of {shape}; {fix}")
    if not any(own[key].dim() > 1 for key in fitting):
        raise ValueError(f"model.start={name!r} does not fit: it has no weights of {config.model.name}; {fix}")
    with torch.no_grad():
        for key in fitting:
            own[key].copy_(trained[key])


def _elsewhere(key: str) -> tuple[str, ...]:
    """The names that a weight has in other runs: under a head, without one, in a head that SphereFace+ adds to."""
    under = key.removeprefix("network.") if key.startswith("network.") else f"network.{key}"
    return under, key.replace("head.head.", "head.", 1)


def _hidden_weights(networks: Networks) -> list[str]:
    """The weights that must fit: convolutions, or where there are none all linear layers but the classifier."""
    head = () if networks.head is None else ("head.",)
    own = {key: value for key, value in networks.classifier().state_dict().items() if not key.startswith(head)}
    weights = [key for key, value in own.items() if key.endswith("weight") and value.dim() > 1]
    convolutions = [key for key in weights if own[key].dim() > 2]
    return convolutions or (weights if head else weights[:-1])


def factors(config: ScheduleConfig) -> list[float]:
    """The factor of the learning rate at every step."""
    return [_factor(config, step) for step in range(config.steps)]


def _factor(config: ScheduleConfig, step: int) -> float:
    warm = min(1.0, (step + 1) / config.warmup) if config.warmup else 1.0
    if config.kind == "step":
        return float(warm * config.gamma ** sum(step >= milestone for milestone in config.milestones))
    if config.kind == "cosine":
        done = max(step - config.warmup, 0) / max(config.steps - config.warmup, 1)
        return warm * 0.5 * (1 + math.cos(math.pi * done))
    return warm
