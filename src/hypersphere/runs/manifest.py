"""What the files of a checkpoint hold and whose they are, so that damage and mix-ups are noticed when they are read.

``manifest.json`` lies beside the files it describes and is written last. It has a hash of every file, the recipe and
the settings of the run, the shapes of the weights, and the version of the package. Folders of earlier versions have
none: they are read as they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from .._core.memory import ran_out
from .._core.version import __version__
from ..config import Config, material
from .files import read_json, write_json

NAME = "manifest.json"
_ACCURACIES = ("final_accuracy", "best_accuracy")


class Foreign(ValueError):
    """A checkpoint of another run: it raises an error, and nothing stands in for it unasked."""


def write_manifest(
    folder: Path, files: Mapping[str, str], config: Config | None, weights: Mapping[str, Tensor], **facts: Any
) -> None:
    """Describe the ``files`` of a folder, given by name with the hash of their content."""
    content: dict[str, Any] = {
        "version": __version__,
        "files": dict(files),
        "shapes": {name: list(tensor.shape) for name, tensor in weights.items()},
        **facts,
    }
    if config is not None:
        content |= {"recipe": config.recipe, "settings": material(config)}
    write_json(folder / NAME, content)


def add_file(folder: Path, name: str, digest: str, **facts: Any) -> None:
    """Note the hash of one more file, and what else is to be known; a manifest is made where there is none."""
    content = read_manifest(folder) or {"version": __version__, "files": {}, "shapes": {}}
    write_json(folder / NAME, {**content, "files": {**content["files"], name: digest}, **facts})


def read_manifest(folder: Path, config: Config | None = None) -> dict[str, Any]:
    """The manifest of a folder, empty if it is from before there were any.

    Raises:
        Foreign: If it is that of a run with another recipe or other settings than ``config``.
        ValueError: If it is not a manifest.
    """
    if not (folder / NAME).exists():
        return {}
    content = read_json(folder / NAME)
    if not isinstance(content, dict) or not isinstance(content.get("files"), dict):
        raise ValueError(f"{folder / NAME} is not a manifest")
    if config is not None and isinstance(content.get("settings"), dict):
        _compare(folder, content, config)
    return content


def check_shapes(found: Mapping[str, Tensor], own: Mapping[str, Tensor], where: Path) -> None:
    """Refuse weights that do not fit the network, by the first name that differs.

    Raises:
        Foreign: If a name is missing, unknown, or of another shape.
    """
    for name, tensor in own.items():
        if name not in found:
            raise Foreign(f"{where} has no {name}, which this network has: it belongs to another network")
        if not fits(found[name], tensor):
            shapes = f"{tuple(found[name].shape)}, and this network's is {tuple(tensor.shape)}"
            raise Foreign(f"{where} has a {name} of shape {shapes}: it belongs to another network")
    strange = next((name for name in found if name not in own), None)
    if strange is not None:
        raise Foreign(f"{where} has {strange}, which this network lacks: it belongs to another network")


def fits(found: Tensor, own: Tensor) -> bool:
    """Whether a saved tensor has the shape of ours; older versions had shape () for a single number.

    Args:
        found: the saved tensor.
        own: the tensor of the network that takes its place.

    Returns:
        Whether the shapes are equal, or both hold one number.
    """
    return found.shape == own.shape or found.numel() == own.numel() == 1


@contextmanager
def fitting(checkpoint: Path) -> Iterator[None]:
    """Turn the errors of what is taken from a checkpoint, whole but of another kind, into one that names it.

    Args:
        checkpoint: The folder.

    Raises:
        Foreign: If something is missing or does not fit.
    """
    other = "it belongs to another training or version. Choose another --run.name"
    try:
        yield
    except KeyError as error:
        raise Foreign(f"{checkpoint} has no {error} in its state: {other}") from error
    except (TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
        if ran_out(error):
            raise
        reason = " ".join(str(error).split())[:200]
        raise Foreign(f"{checkpoint} has a state that does not fit ({reason}): {other}") from error


def _compare(folder: Path, content: Mapping[str, Any], config: Config) -> None:
    theirs, ours = content["settings"], json.loads(json.dumps(material(config)))  # as they come back from a file
    differences = [f"recipe ({content.get('recipe')!r}, here {config.recipe!r})"] * (
        content.get("recipe") != config.recipe
    )
    for group, values in theirs.items():
        if isinstance(values, Mapping) and isinstance(ours.get(group), Mapping):
            differences += [
                f"{group}.{name} ({value!r}, here {ours[group][name]!r})"
                for name, value in values.items()
                if name in ours[group] and ours[group][name] != value
            ]
    if differences:
        raise Foreign(f"{folder} belongs to another run: {', '.join(differences[:3])}")


def read_result(path: Path, expected: str | None = None) -> dict[str, Any] | None:
    """The result in a file, whose hash is ``expected`` if one is given; None while there is none.

    Raises:
        ValueError: If the file holds something else; it says how to get the result again.
    """
    if not path.exists():
        return None
    remedy = "Remove the file and give the training command again: it is written again from the last checkpoint"
    try:
        found = read_json(path, expected)
    except ValueError as error:
        raise ValueError(f"{error}. {remedy}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it holds {type(found).__name__}, not a JSON object. {remedy}")
    found = with_nan(found)
    for name in _ACCURACIES:
        value = found.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{path} holds no result of a training run: it has no number {name!r}. {remedy}")
    return found


def with_nan(result: dict[str, Any]) -> dict[str, Any]:
    """A result with NaN for the accuracies and metrics that were not finite, for which JSON has null."""
    found = {name: math.nan if name in _ACCURACIES and value is None else value for name, value in result.items()}
    if isinstance(metrics := result.get("metrics"), dict):
        found["metrics"] = {name: math.nan if value is None else value for name, value in metrics.items()}
    return found
