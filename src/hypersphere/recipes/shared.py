"""Trainings that stand in several tables: what is measured under one name counts under every other.

Two trainings are the same where all settings are that can change the weights. How it is computed is left aside
(precision, captured steps), as in ``results``, where a cell has one number for all of these. What a measurement was
trained with is what its cell and its changes say today: by that it counts in its own table, too. The final network may
be evaluated further under one name than under another: then the first counts for both.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..config import Config, material, with_values
from . import results
from .results import counts
from .shorter import shortened
from .table import Cell, Table

Known = dict[str, list[dict[str, Any]]]
_log = logging.getLogger(__name__)


def known(folder: Path, tables: Iterable[Table]) -> Known:
    """The measurements that a folder has of these tables, by what was trained; one under its own name comes last."""
    found: Known = {}
    for table in tables:
        cells = {cell.training: cell for cell in table.cells}
        for one in _read(table, folder):
            config = _trained(table, cells.get(one["cell"]), one)
            if config is not None:
                place = found.setdefault(_key(config), [])
                place.insert(len(place) if one["recipe"] == config.recipe else 0, one)
    return found


def same(config: Config, seeds: Collection[int], found: Known) -> dict[int, dict[str, Any]]:
    """A measurement of this training under another name for each of the seeds that has any."""
    others = (one for one in found.get(_key(config), ()) if one["recipe"] != config.recipe)
    return {one["seed"]: one for one in others if one["seed"] in seeds and _has(one, config) and counts(one, config)}


def adopt(
    table: Table, cell: str, found: Mapping[int, Mapping[str, Any]], folder: Path, changed: Mapping[str, Any]
) -> None:
    """Record measurements of the same training under a cell's name; each keeps the recipe that it was trained as."""
    for one in found.values():
        result = {name: value for name, value in one.items() if name != "changed"}
        result["settings"] = {**one["settings"], "recipe": f"{table.name}.{cell}"}
        results.keep(table, cell, result, folder, changed)


def _read(table: Table, folder: Path) -> list[dict[str, Any]]:
    try:
        return results.read(table, folder)
    except (OSError, ValueError) as error:  # of a table that was not asked for
        _log.warning("%s; its numbers are not looked at", error)
        return []


def _trained(table: Table, cell: Cell | None, measurement: Mapping[str, Any]) -> Config | None:
    """The settings of a measurement; None where its entries do not tell."""
    changed = measurement.get("changed", {})
    if cell is None or not {"recipe", "settings"} <= measurement.keys():
        return None
    if not all("." in name for name in changed):  # others are changes of the code
        return None
    recipe, steps = cell.config(table.name), measurement["steps"]
    if steps != recipe.schedule.steps and "schedule.steps" not in changed:
        recipe = shortened(recipe, steps)
    try:
        return with_values(recipe, changed)
    except (TypeError, ValueError):  # a setting of another version
        return None


def training(config: Config) -> dict[str, Any]:
    """The settings that can change the weights, or which of them are the best."""
    settings = material(config)
    del settings["recipe"], settings["evaluation"]["also"], settings["adversarial"]["source"]
    return settings


def evaluates(one: Config, other: Config) -> bool:
    """Whether the final network is evaluated in every way that the other asks for, by attacks on the same source."""
    return _covers(one.evaluation.also, one.adversarial.source, other)


def _has(one: Mapping[str, Any], config: Config) -> bool:
    """The same of a measurement."""
    evaluation, adversarial = (one["settings"].get(group, {}) for group in ("evaluation", "adversarial"))
    return _covers(evaluation.get("also", ()), adversarial.get("source"), config)


def _covers(also: Iterable[str], source: str | None, other: Config) -> bool:
    return set(other.evaluation.also) <= set(also) and other.adversarial.source in (None, source)


def _key(config: Config) -> str:
    settings = training(config)
    del settings["run"]
    del settings["evaluation"]["inception"]  # by which network a GAN is scored: see the changes of a cell
    settings["model"]["conv"] = config.model.operator  # which may be named where it is the network's own
    return json.dumps(settings, sort_keys=True)
