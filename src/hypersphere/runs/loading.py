"""The trained network of a run folder, or of what ``hypersphere export`` wrote."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from .._core.pixels import Normalized, remember_normalized
from .._core.trust import check_trusted
from .._core.trust import trust as trust_modules
from ..config import Config, from_dict
from .device import usable_device
from .facts import Facts, facts_from
from .files import read_json, read_tensors
from .networks import Networks, attach, make_networks, merged
from .run import Run
from .seed_folder import SeedFolder


def load(
    run: str | Path,
    *,
    seed: int | None = None,
    device: torch.device | str = "cpu",
    trust: str | Iterable[str] | None = None,
) -> nn.Module:
    """Load the network of a run for evaluation: inputs → logits, with ``features`` for the embedding.

    Orthogonal matrices are multiplied into the weights, so that it is an ordinary network. A run that is not finished
    gives its newest checkpoint. A damaged file raises a ``ValueError`` that names it and the remedy: older weights
    never replace it silently. Nothing that is read can run code, unless it names a module that you trust.

    Args:
        run: the run folder, the folder of one seed in it, or an export: its folder or its ``model.safetensors``.
        seed: which seed of a run; None: the first.
        device: device of the returned network, ``"cpu"`` by default.
        trust: modules whose code the settings may name by ``module:Name``, e.g. the module of your own head.

    Returns:
        The network in evaluation mode.

    Raises:
        ValueError: If a file is missing, damaged or of another run, or names code of a module that is not trusted.

    Example:
        >>> model = hs.load("runs/digits")
        >>> model.training
        False
    """
    trust_modules(trust)
    place = usable_device(device, compute=False)
    path = Path(run).expanduser()
    if (path / "export.json").exists() or (path.is_file() and path.suffix == ".safetensors"):
        if seed is not None:
            raise ValueError(f"seed={seed} is for run folders, and {path} is an export of one seed")
        return _exported(path).eval().to(place)
    found = Run(path, seed)
    own = found.own_loop(found.seeds[0])
    model = _of_run(found) if own is None else _of_loop(found, own)
    return model.eval().to(place)


def build_again(path: Path, seed: int) -> nn.Module:
    """The network of a run from its settings alone, as another process has to build it."""
    return _of_run(Run(path, seed))


def keep_alive(path: Path, seed: int, network: nn.Module) -> None:
    """Remember the network of a loop in this process, as long as somebody holds it, for :func:`load`."""
    _living[path.resolve(), seed] = network


def forget(path: Path, seed: int) -> None:
    """Forget the network of a loop in this process that begins anew."""
    _living.pop((path.resolve(), seed), None)


def is_alive(path: str | Path, seed: int) -> bool:
    """Tell whether the network of a run was trained by a loop in this process and still exists.

    Args:
        path: The run folder, e.g. ``"runs/mine"``.
        seed: The number of the seed in it, e.g. 0.

    Returns:
        Whether :func:`load` needs no settings to build it.

    Example:
        >>> hs.runs.is_alive("runs/digits", 0)
        False
    """
    return (Path(path).resolve(), seed) in _living


_living: WeakValueDictionary[tuple[Path, int], nn.Module] = WeakValueDictionary()


def _of_run(found: Run) -> nn.Module:
    folder, facts = found.folder(), found.facts()
    final = folder.weights_path
    if final.exists():
        remedy = "remove the file to get the newest checkpoint instead, or train again under another --run.name"
        model = _network(found.config, facts, found.path)
        _fill(model, _tensors(final, remedy, folder.weights), final, remedy)
    else:
        model = _unfinished(found.config, facts, folder)
    if found.own_loop(found.seeds[0]) is None:  # a loop of one's own normalises by itself
        _tell_normalized(model, found.config, facts)
    return model


def _of_loop(found: Run, noted: Mapping[str, Any]) -> nn.Module:
    """What a loop of one's own has trained: from the settings where they make it, else while the loop lives."""
    number = found.seeds[0]
    folder, why, cause = found.folder(number), noted.get("why_not"), None
    if noted.get("rebuilds") or not folder.weights_path.exists():
        try:
            return _of_run(found)
        except ValueError as error:
            if not folder.weights_path.exists():  # there is nothing that settings could help with
                raise
            why = cause = error
    alive = _living.get((found.path.resolve(), number))
    if alive is not None:  # the loop was in this process: its network needs no settings
        model, weights = merged(alive), folder.weights_path
        _fill(model, _tensors(weights, "train again", folder.weights), weights, "train again")
        return model
    raise ValueError(
        f"{found.path} was trained by your own loop, and its network could not be built again from its "
        f"settings: {why}. Give Logger settings that build it (model.name='yourmodule:Net', model.extra, "
        f"loss.name), or load {folder.weights_path} into your own network"
    ) from cause


def _tell_normalized(model: nn.Module, config: Config, facts: Facts) -> None:
    """Let the network say how its images were normalised, which ``hs.embed`` asks for."""
    if facts.image_size is not None:
        remember_normalized(model, Normalized(config.data.normalize, facts.mean, facts.std))


def _unfinished(config: Config, facts: Facts, folder: SeedFolder) -> nn.Module:
    """The newest checkpoint, which holds the orthogonal matrices apart."""
    newest = folder.latest()
    if newest is None:
        raise ValueError(f"{folder.path} holds no network yet: train it first")
    file = newest / "model.safetensors"
    older = sorted(path.name for path in folder.checkpoints.glob("step-*") if path.name < newest.name)
    instead = f"then {older[-1]} is used, and training continues from it" if older else "and train again"
    remedy = f"remove the folder {newest}, {instead}"
    if not file.exists():
        raise ValueError(f"{newest} has no model.safetensors, so it is not a complete checkpoint: {remedy}")
    networks = _networks(config, facts, folder.path.parent)
    _fill(networks, _tensors(file, remedy, lambda: folder.load(newest)[0]), file, remedy)
    return merged(networks.classifier())


def _exported(path: Path) -> nn.Module:
    """From the file alone: it carries the settings."""
    file = path if path.is_file() else path / "model.safetensors"
    if not file.exists():
        raise ValueError(f"{path} is an export without model.safetensors: export it with --formats safetensors")
    remedy = "export the run again"
    _check_hash(file, remedy)
    tensors = _tensors(file, remedy)
    about = _metadata(file)
    if "config" not in about or "facts" not in about:
        raise ValueError(f"{file} does not carry the settings of its network: give the run folder instead")
    try:
        settings, values = json.loads(about["config"]), json.loads(about["facts"])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} carries damaged settings: {error}. Remedy: {remedy}") from error
    if isinstance(settings, dict):
        check_trusted(settings, file)
    try:
        config = from_dict(Config, settings)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{file} carries settings of another version: {error}. Remedy: {remedy}") from error
    facts = facts_from(values, file)
    model = _network(config, facts, file, embedding=about.get("outputs") == "embedding")
    _fill(model, tensors, file, remedy)
    _tell_normalized(model, config, facts)
    return model


def _check_hash(file: Path, remedy: str) -> None:
    """Compare the file with what ``export.json`` beside it says, if it is there."""
    manifest = file.with_name("export.json")
    if not manifest.exists():
        return
    content = read_json(manifest)
    try:
        wanted = content["files"][file.name]["sha256"]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{manifest} does not list {file.name}. Remedy: {remedy}") from error
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != wanted:
        raise ValueError(f"{file} is not what was written: its SHA-256 is {found}, not {wanted}. Remedy: {remedy}")


def _network(config: Config, facts: Facts, where: Path, embedding: bool = False) -> nn.Module:
    """What is evaluated, with fresh weights: merged networks are what they are without orthogonal matrices."""
    plain = replace(config, orthogonal=replace(config.orthogonal, method=None))
    networks = _networks(plain, facts, where, embedding)
    return networks.model if embedding else networks.classifier()


def _networks(config: Config, facts: Facts, where: Path, embedding: bool = False) -> Networks:
    """As a checkpoint holds them; the caller's random numbers stay as they are."""
    try:
        with torch.random.fork_rng(devices=[]):
            networks = make_networks(config, facts, embedding=embedding)
            attach(replace(config.orthogonal, refine=None), networks.model, networks.head, 0)
    except Exception as error:  # settings in a file may be wrong in any way
        raise ValueError(f"the settings of {where} do not make a network: {error}") from error
    return networks


def _fill(model: nn.Module, tensors: Mapping[str, Tensor], file: Path, remedy: str) -> None:
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        reason = " ".join(line.strip() for line in str(error).splitlines()[1:3])
        raise ValueError(f"{file} does not fit the settings of its run: {reason[:300]} Remedy: {remedy}") from error


def _tensors(file: Path, remedy: str, read: Callable[[], dict[str, Tensor]] | None = None) -> dict[str, Tensor]:
    try:
        return read_tensors(file) if read is None else read()
    except ImportError as error:
        raise ValueError(f"{file} needs the safetensors package: pip install 'hypersphere[train]'") from error
    except ValueError as error:
        raise ValueError(f"{error}. Remedy: {remedy}") from error


def _metadata(file: Path) -> dict[str, Any]:
    from safetensors import safe_open

    with safe_open(file, framework="pt") as content:
        return dict(content.metadata() or {})
