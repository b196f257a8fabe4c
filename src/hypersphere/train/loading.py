"""The trained network of a run folder, or of what ``hypersphere export`` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .config import Config
from .data import Facts
from .device import usable_device
from .files import read_tensors
from .folder import SeedFolder
from .gan.objective import make_gan
from .model import attach, make_model
from .objective import Objective, make_head
from .options import from_dict
from .runs import Run, facts_from
from .training import merged

__all__ = ["load", "usable_device"]


def load(run: str | Path, *, seed: int | None = None, device: torch.device | str = "cpu") -> nn.Module:
    """The network of a run for evaluation: inputs → logits, with ``features`` for the embedding.

    Orthogonal matrices are multiplied into the weights, so it is an ordinary network. A run that is not finished
    gives its newest checkpoint. A damaged file is a ``ValueError`` that names it and the remedy: older weights never
    stand in for it unasked.

    Args:
        run: the run folder, the folder of one seed in it, or an export: its folder or its ``model.safetensors``.
        seed: which seed of a run; None: the first.
        device: where to put it.
    """
    place = usable_device(device, compute=False)
    path = Path(run).expanduser()
    if (path / "export.json").exists() or (path.is_file() and path.suffix == ".safetensors"):
        if seed is not None:
            raise ValueError(f"seed={seed} is for run folders, and {path} is an export of one seed")
        return _exported(path).eval().to(place)
    found = Run(path, seed)
    folder, facts = found.folder(), found.facts()
    final = folder.path / "model.safetensors"
    if final.exists():
        remedy = "remove the file to get the newest checkpoint instead, or train again under another --run.name"
        model = _network(found.config, facts, found.path)
        _fill(model, _tensors(final, remedy), final, remedy)
    else:
        model = _unfinished(found.config, facts, folder)
    return model.eval().to(place)


def _unfinished(config: Config, facts: Facts, folder: SeedFolder) -> nn.Module:
    """The newest checkpoint, which holds the orthogonal matrices apart."""
    newest = folder.latest()
    if newest is None:
        raise ValueError(f"{folder.path} holds no network yet: train it first")
    file = newest / "model.safetensors"
    older = sorted(path.name for path in folder.checkpoints.glob("step-*") if path.name < newest.name)
    instead = f"then {older[-1]} is used, and training goes on from it" if older else "and train again"
    remedy = f"remove the folder {newest}, {instead}"
    if not file.exists():
        raise ValueError(f"{newest} has no model.safetensors, so it is no whole checkpoint: {remedy}")
    objective = _objective(config, facts, folder.path.parent)
    _fill(objective, _tensors(file, remedy), file, remedy)
    return merged(objective.classifier())


def _exported(path: Path) -> nn.Module:
    """From the file alone: it carries the settings."""
    file = path if path.is_file() else path / "model.safetensors"
    if not file.exists():
        raise ValueError(f"{path} is an export without model.safetensors: export it with --formats safetensors")
    remedy = "export the run again"
    tensors = _tensors(file, remedy)
    about = _metadata(file)
    if "config" not in about or "facts" not in about:
        raise ValueError(f"{file} does not carry the settings of its network: give the run folder instead")
    try:
        config, values = from_dict(Config, json.loads(about["config"])), json.loads(about["facts"])
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} carries settings of another version: {error}. Remedy: {remedy}") from error
    embedding = about.get("outputs") == "embedding"
    model = _network(config, facts_from(values, file), file, classifier=not embedding)
    _fill(model, tensors, file, remedy)
    return model


def _network(config: Config, facts: Facts, where: Path, classifier: bool = True) -> nn.Module:
    """What is evaluated, with fresh weights: merged networks are what they are without orthogonal matrices."""
    plain = replace(config, orthogonal=replace(config.orthogonal, method=None))
    objective = _objective(plain, facts, where, classifier)
    return objective.classifier() if classifier else objective.model


def _objective(config: Config, facts: Facts, where: Path, classifier: bool = True) -> Objective:
    """Network and head; the caller's random numbers stay as they are."""
    own = config.loss.own_classifier
    try:
        with torch.random.fork_rng(devices=[]):
            if config.gan.generator is not None:
                gan = make_gan(config, facts)
                attach(replace(config.orthogonal, refine=None), gan.model, None, 0)
                return gan
            model = make_model(config.model, facts, classifier=own and classifier)
            features = 0 if own else int(model.feature_dim)  # type: ignore[arg-type]
            head = make_head(config.loss, features, facts.num_classes)
            attach(replace(config.orthogonal, refine=None), model, head, 0)
    except Exception as error:  # settings in a file may be wrong in any way
        raise ValueError(f"the settings of {where} do not make a network: {error}") from error
    return Objective(model, head)


def _fill(model: nn.Module, tensors: Mapping[str, Tensor], file: Path, remedy: str) -> None:
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        reason = " ".join(line.strip() for line in str(error).splitlines()[1:3])
        raise ValueError(f"{file} does not fit the settings of its run: {reason[:300]} Remedy: {remedy}") from error


def _tensors(file: Path, remedy: str) -> dict[str, Tensor]:
    try:
        return read_tensors(file)
    except ImportError as error:
        raise ValueError(f"{file} needs the safetensors package: pip install 'hypersphere[train]'") from error
    except ValueError as error:
        raise ValueError(f"{error}. Remedy: {remedy}") from error


def _metadata(file: Path) -> dict[str, Any]:
    from safetensors import safe_open

    with safe_open(file, framework="pt") as content:
        return dict(content.metadata() or {})
