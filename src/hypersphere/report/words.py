"""The settings of a run as a person would say them."""

from __future__ import annotations

from .._core.registries import (
    ANGULAR,
    DATASETS,
    HEADS,
    MAGNITUDES,
    MAPS,
    MEASUREMENTS,
    MODELS,
    OPTIMIZERS,
    REGULARIZERS,
)
from ..config import Config, LossConfig
from ..config.loss import OWN_CLASSIFIER
from ..config.regularizer import is_energy
from ..data import describe as about_data
from ..evaluation import describe

_OPERATORS = {"plain": "ordinary", "sphere": "hyperspherical (SphereConv)", "decoupled": "decoupled"}


def in_words(config: Config) -> list[tuple[str, str]]:
    """(part, sentence) for what matters of each part."""
    rows = [
        ("Data", _data(config)),
        ("Network", _network(config)),
        ("Loss", _loss(config)),
        ("Regularizer", _regularizer(config)),
        ("Orthogonal training", _orthogonal(config)),
        ("Optimizer", _optimizer(config)),
        ("Schedule", _schedule(config)),
        ("Evaluated by", _evaluated(config)),
    ]
    return [(part, text) for part, text in rows if text]


def _data(config: Config) -> str:
    data = config.data
    aids = [
        f"shifted by up to {data.pad} pixel{'s' * (data.pad > 1)}" if data.pad else "",
        "mirrored at random" if data.hflip else "",
    ]
    aids += [
        "flipped upside down at random" if data.vflip else "",
        f"imbalanced ({data.imbalance})" if data.imbalance else "",
    ]
    return ", ".join([about_data(data.name).split(";")[0], *filter(None, aids)])


def _network(config: Config) -> str:
    model = config.model
    text = MODELS.label(model.name) + (f" with widths {model.widths}" if model.widths else "")
    text += f", {_OPERATORS.get(model.operator, model.operator)} operators"
    if model.operator != "plain":
        if model.magnitude:
            text += f", h = {MAGNITUDES.label(model.magnitude)}"
        k = "learned" if model.learnable_k else f"k = {model.k:g}" if model.k is not None else "k = 0.3"
        if model.angular:
            text += f", g = {ANGULAR.label(model.angular)}" + (f" ({k})" if model.angular == "sigmoid" else "")
    if model.feature_dim:
        text += f", features of {model.feature_dim} dimensions"
    return text + (f", normalisation: {model.norm}" if model.norm else "")


def _loss(config: Config) -> str:
    loss = config.loss
    text = _head(loss)
    text += f", m = {loss.margin:g}" if loss.margin is not None else ""
    text += f", s = {loss.scale:g}" if loss.scale is not None else ""
    text += f", g = {ANGULAR.label(loss.angular)}" if loss.angular is not None else ""
    text += f", label smoothing {loss.label_smoothing:g}" if loss.label_smoothing else ""
    return text + (f", energy of the class vectors × {loss.energy:g} (SphereFace+)" if loss.energy else "")


def _head(loss: LossConfig) -> str:
    if loss.name in OWN_CLASSIFIER:
        return f"{OWN_CLASSIFIER[loss.name]} on the network's own linear classifier"
    about = HEADS.entry(loss.name).about if loss.name in HEADS else ""
    return HEADS.label(loss.name) + (f": {about[0].lower()}{about[1:]}" if about else "")


def _regularizer(config: Config) -> str:
    part = config.regularizer
    parts = [] if part.name == "none" else [REGULARIZERS.label(part.name)]
    if part.name in REGULARIZERS and is_energy(REGULARIZERS.entry(part.name)):
        parts[0] += f", s = {part.s:g}, {part.distance} distance" + (", half space" if part.half_space else "")
    return "; ".join([*parts, *([f"orthonormality × {part.orthonormality:g}"] if part.orthonormality else [])])


def _orthogonal(config: Config) -> str:
    part = config.orthogonal
    if part.method is None:
        return ""
    return f"OPT by {MAPS.label(part.method)}" + (f" in {part.blocks} blocks" if part.blocks > 1 else "")


def _optimizer(config: Config) -> str:
    part = config.optim
    text = f"{OPTIMIZERS.label(part.name)}, learning rate {part.lr:g}"
    if part.name in OPTIMIZERS and any(one.name == "momentum" for one in OPTIMIZERS.entry(part.name).parameters):
        text += f", momentum {part.momentum:g}"
    text += f", weight decay {part.weight_decay:g}" if part.weight_decay else ""
    text += f", gradients clipped at {part.clip:g}" if part.clip is not None else ""
    if config.orthogonal.method == "gradient" and part.name != "orthogonal_sgd":
        text += f"; R by orthogonal SGD, learning rate {part.manifold_lr:g}"
    elif config.orthogonal.method is not None and part.orthogonal_lr is not None:
        text += f"; learning rate of R {part.orthogonal_lr:g}"
    every = part.projection_every
    return text + (f", weights projected to length {part.projection_norm:g} every {every} steps" if every else "")


def _schedule(config: Config) -> str:
    part = config.schedule
    graph = getattr(DATASETS.get(config.data.name), "of", None) == "graph"
    text = f"{part.steps:,} steps " + ("over the whole graph" if graph else f"of {config.data.batch_size} samples")
    milestones = [step for step in part.milestones if step < part.steps]
    if part.kind == "step" and milestones:
        text += f", learning rate × {part.gamma:g} at step {', '.join(f'{step:,}' for step in milestones)}"
    text += ", learning rate along a cosine to 0" if part.kind == "cosine" else ""
    text += f", warm-up over {part.warmup:,} steps" if part.warmup else ""
    seeds = config.run.seeds
    return text + f"; {config.run.precision}; seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _evaluated(config: Config) -> str:
    also = [MEASUREMENTS.label(name) for name in config.evaluation.also]
    return describe(config) + (f"; the final network also by {', '.join(also)}" if also else "")
