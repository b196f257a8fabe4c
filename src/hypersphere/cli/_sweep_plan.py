"""Which runs a sweep consists of: every combination of the values that some options are given."""

from __future__ import annotations

import itertools
import json
import re
import typing
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._core.checks import check_folder_name
from ..config import Config, changed, material, read_text, settings, with_values
from ..runs import Run, run_path
from ..runs.files import json_text
from .settings import chosen_config, freed


@dataclass
class Combination:
    """One run of a sweep: what was varied, its settings, and its error if it failed."""

    varied: dict[str, Any]
    config: Config
    error: str | None = None

    @property
    def name(self) -> str:
        return str(self.config.run.name)

    def results(self) -> list[dict[str, Any]]:
        """The results of the seeds that are done; a run with other settings in the folder has none for this one."""
        if not (run_path(self.config) / "config.json").exists():
            return []
        try:
            found = Run(run_path(self.config))
        except ValueError:  # the run has no folder yet
            return []
        if changed(found.config, self.config):
            return []
        wanted = [seed for seed in found.seeds if seed in self.config.run.seeds]
        return [result for seed in wanted if (result := found.result(seed)) is not None]

    def missing(self) -> list[int]:
        """The seeds that are not done."""
        done = {result["seed"] for result in self.results()}
        return [seed for seed in self.config.run.seeds if seed not in done]


@dataclass(frozen=True)
class Plan:
    """What a sweep was asked for.

    Attributes:
        base: The settings that all runs start from.
        fixed: The options that were given one value. ``base`` lacks them where they only fit what is varied.
        values: The values of the options that are varied, by name.
        place: The folder of the sweep, as ``run.folder`` of its runs.
    """

    base: Config
    fixed: dict[str, Any]
    values: dict[str, list[Any]]
    place: str

    @property
    def folder(self) -> Path:
        """The folder of the sweep."""
        return Path(self.place).expanduser()

    @property
    def varied(self) -> list[str]:
        """The options that are varied; the last one varies fastest."""
        return list(self.values)

    def combinations(self) -> Iterator[Combination]:
        """Every combination of the values, the last option varying fastest."""
        for chosen in itertools.product(*self.values.values()):
            yield self.combination(dict(zip(self.values, chosen, strict=True)))

    def combination(self, changes: dict[str, Any]) -> Combination:
        """The run under some values; settings that do not fit together become the ``error`` of it."""
        place = {"run.folder": self.place, "run.name": _run_name(changes)}
        try:
            values = {**freed(self.fixed | changes, self.base), **place}
            return Combination(changes, with_values(self.base, values))
        except (ValueError, TypeError) as error:  # e.g. a margin without a head; other combinations may be valid
            return Combination(changes, with_values(self.base, place), error=str(error))

    def settings(self) -> dict[str, Any]:
        """The material settings that all runs share and that differ from the recipe's, by name, as JSON has them."""
        usual, now = self.usual(), _material(self.base)
        valid = next((one.config for one in self.combinations() if one.error is None), self.base)
        taken = _material(valid)  # as the settings have them, which know other names of heads, for example
        now |= {name: taken[name] for name in self.fixed if name in now}
        return {name: value for name, value in now.items() if name not in self.values and value != usual[name]}

    def usual(self) -> dict[str, Any]:
        """The material settings of the recipe by itself, by name, as JSON has them."""
        try:
            return _material(chosen_config(self.base.recipe, None, {}))
        except ValueError:  # a file of settings may name a recipe that is no longer known
            return _material(Config())


def make_plan(
    recipe: str | None,
    file: str | None,
    texts: Mapping[str, str],
    name: str | None = None,
    order: Sequence[str] = (),
) -> Plan:
    """Read what the command line asks for.

    Args:
        recipe: Name of the recipe, or None if the file names one.
        file: A file of settings, or None.
        texts: The texts of the options that are given; each may hold several values.
        name: Name of the sweep's folder; None makes one of the recipe's name.
        order: Options that an earlier sweep in the folder varied. Those that are given count as varied even with one
            value, so that a value can be added alone, and they come first, so that runs have the same names.

    Raises:
        ValueError: If a text is not a valid value of its option.
    """
    hints = settings()
    values = {option: _values(option, text, hints[option]) for option, text in texts.items()}
    if "run.name" in values:
        raise ValueError("--run.name names a single run: use --name to name the sweep")
    varied = [option for option in order if option in values]
    varied += [option for option, every in values.items() if len(every) > 1 and option not in varied]
    fixed = {option: every[0] for option, every in values.items() if option not in varied}
    try:
        base = chosen_config(recipe, file, fixed)
    except ValueError:  # they may fit together with what is varied, e.g. a margin with the heads that are named
        if not varied:
            raise
        base = chosen_config(recipe, file, {name: value for name, value in fixed.items() if name.startswith("run.")})
    place = str(Path(base.run.folder) / check_folder_name("--name", name or f"{base.recipe}-sweep"))
    return Plan(base, fixed, {option: values[option] for option in varied}, place)


def value_text(value: Any) -> str:
    """A value as the table and the names of runs show it."""
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _material(config: Config) -> dict[str, Any]:
    groups = ((group, part) for group, part in material(config).items() if isinstance(part, dict))
    return {f"{group}.{name}": _as_json(value) for group, part in groups for name, value in part.items()}


def _as_json(value: Any) -> Any:
    return json.loads(json_text(value))


def _values(option: str, text: str, hint: Any) -> list[Any]:
    """Split the text of an option into values, as the end of ``--help`` explains."""
    kinds = typing.get_args(hint) or (hint,)
    listed = any((typing.get_origin(kind) or kind) in (tuple, dict) for kind in (hint, *kinds))
    parts = [part for part in text.split("|") if part.strip()] if "|" in text else [text] if listed else text.split(",")
    try:
        found = [read_text(hint, part.strip()) for part in parts]
    except ValueError:
        raise ValueError(
            f"--{option} {text!r} has a value that the option does not accept: see --help {option}"
        ) from None
    if not found or len({str(value) for value in found}) != len(found):
        hint = f". If its commas belong to one value, write '{text}|'" if "," in text and "|" not in text else ""
        raise ValueError(f"--{option} {text!r} must have at least one value, and no value twice{hint}")
    return found


def _run_name(changes: Mapping[str, Any]) -> str:
    """A folder name such as ``loss.margin=0.2,optim.lr=0.1``, shortened and cleaned where file systems need it."""
    plain = ",".join(f"{option}={value_text(value)}" for option, value in changes.items()) or "run"
    name = re.sub(r"[^\w.=,+-]", "_", plain)
    if name == plain and len(name) <= 120:
        return name
    return f"{name[:100]}-{zlib.crc32(plain.encode()):08x}"
