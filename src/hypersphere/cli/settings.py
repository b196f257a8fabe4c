"""The settings that a recipe, a file and the command line give together, for train, sweep and reproduce."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from .._core.registry import follow
from .._core.trust import addresses, check_trusted
from .._core.trust import named as trusted
from ..config import Config, read_values, settings, to_dict, with_values
from ..recipes import get

_CODE = ("name", "angular", "magnitude", "method", "generator", "protocol", "also")
"""What the settings are called that may hold ``module:Name``."""


def check_code(config: Config) -> None:
    """Raise ValueError for code that the settings name by ``module:Name`` and that is not there, with its setting."""
    for setting, address in addresses(to_dict(config)):
        if setting.rpartition(".")[2] in _CODE:
            follow(address, setting)


def chosen_config(recipe: str | None, file: str | None, values: dict[str, Any]) -> Config:
    """The settings of a recipe, changed by those of a file, changed by those of the command line.

    A file that names its recipe, as that of a run does, needs no other. Code that the file names by ``module:Name``
    must be trusted; that of the command line is.

    Raises:
        ValueError: If neither names a recipe, both name different ones, or there is no such recipe.
    """
    trusted(values)  # what this command line names
    found, stored = (None, {}) if file is None else read_values(file)
    check_trusted(stored, file)
    name = recipe or found
    if name is None:
        whose = f"--config {file} names no recipe: " if file else ""
        raise ValueError(
            f"{whose}name a recipe (see `hypersphere list recipes`), or `custom` to start from the defaults"
        )
    base = _base(name) if recipe else _base_of_file(name, stored, file)
    if recipe and found and found != name and _base_of_file(found, stored, file).recipe != base.recipe:
        raise ValueError(
            f"--config {file} holds settings of the recipe {found!r}, not of {recipe!r}: leave out {recipe!r}, or the "
            "line `recipe` of the file"
        )
    stored = freed(stored, base)
    return with_values(base, stored | freed(values, base, stored))


def freed(values: Mapping[str, Any], config: Config, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The values, and no k where they choose another g than the settings, or ``before``, had: it was the sigmoid's.

    A k among the values stays, so that it is told to change nothing, or refused.
    """
    free: dict[str, Any] = {}
    for group, had in (("model", config.model.angular), ("loss", config.loss.angular)):
        had = (before or {}).get(f"{group}.angular", had)
        if values.get(f"{group}.angular", had) not in (had, "sigmoid"):
            free |= {f"{group}.k": None, f"{group}.learnable_k": False}
    return free | dict(values)


def _base(name: str) -> Config:
    return Config() if name == "custom" else get(name)


def _base_of_file(name: str, stored: dict[str, Any], file: str | None) -> Config:
    """The settings of the recipe that a file names; that of a run may be no longer known: it says everything itself."""
    try:
        return _base(name)
    except ValueError as error:
        if {group.partition(".")[0] for group in stored} >= {group.partition(".")[0] for group in settings()}:
            return replace(Config(), recipe=name)
        raise ValueError(f"--config {file}: {error}") from None
