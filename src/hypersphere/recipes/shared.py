"""Trainings that stand in several tables: what is measured under one name counts under every other.

Two trainings are the same where all settings are that can change the outcome. How it is computed is left aside
(precision, captured steps), as in ``results``, where a cell has one number for all of these.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..config import Config, from_dict, material
from . import results
from .table import Table

Known = dict[str, list[dict[str, Any]]]
_NAMES = ("cell", "published", "settings", "changed")  # of a measurement: those of its table


def known(folder: Path, tables: Iterable[Table]) -> Known:
    """The measurements that a folder has of these tables, by what was trained."""
    found: Known = {}
    for table in tables:
        for one in results.read(table, folder):
            config = _trained(one)
            if config is not None:
                found.setdefault(_training(config), []).append(one)
    return found


def same(config: Config, seeds: Collection[int], found: Known) -> dict[int, dict[str, Any]]:
    """A measurement of this training for each of the seeds that has any."""
    return {one["seed"]: one for one in found.get(_training(config), ()) if one["seed"] in seeds}


def adopt(
    table: Table, cell: str, found: Mapping[int, Mapping[str, Any]], folder: Path, changed: Mapping[str, Any]
) -> None:
    """Record measurements of the same training under a cell's name; each keeps the recipe that it was trained as."""
    for one in found.values():
        config = replace(from_dict(Config, one["settings"]), recipe=f"{table.name}.{cell}")
        result = {name: value for name, value in one.items() if name not in _NAMES}
        results.record(table, cell, config, result, folder, changed)


def _trained(measurement: Mapping[str, Any]) -> Config | None:
    """The settings of a measurement; None where they do not say all, or are of another version."""
    if not all("." in name for name in measurement.get("changed", {})):  # others are changes of the code
        return None
    try:
        return from_dict(Config, measurement["settings"])
    except (KeyError, TypeError, ValueError):
        return None


def _training(config: Config) -> str:
    settings = material(config)
    for name in ("recipe", "run"):
        del settings[name]
    del settings["evaluation"]["inception"]  # by which network a GAN is scored: see the changes of a cell
    settings["model"]["conv"] = config.model.operator  # which may be named where it is the network's own
    return json.dumps(settings, sort_keys=True)
