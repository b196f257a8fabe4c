"""``Run(path)``: what a run folder says, for everything that looks at runs after training."""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from .._core.trust import check_trusted
from .._core.trust import trust as trust_modules
from ..config import Config, with_values
from .facts import Facts, facts_from
from .files import read_json
from .run_folder import data_from, read_config, run_path
from .seed_folder import LOOP, SeedFolder

logger = logging.getLogger("hypersphere")

_SEED = re.compile(r"seed-(0|[1-9][0-9]*)")
_TRACES = ("facts.json", "log.jsonl", "result.json", "model.safetensors", "checkpoints/step-*")
"""What a training leaves in the folder of its seed, the first as it begins."""


class Run:
    """A run folder, or the folder of one seed in it, read only.

    A file that is missing, of another run or damaged raises a ``ValueError`` that names it. A last line of the log that
    was cut off by a crash is not an error: training would drop it, too. Folders such as ``seed-0 (copy)`` do not count
    as seeds. Neither do folders in which no training began, for example because the disk was full.

    Args:
        path: a run folder, or the folder of one of its seeds (``RUN/seed-0``).
        seed: read this seed only; None reads all of them.
        trust: modules whose code the settings may name by ``module:Name``. Other addresses in a file raise an error,
            unless a program or a command line named them in this process before.

    Raises:
        ValueError: If the folder is not a run folder, or the seed does not exist.

    Example:
        >>> run = hs.runs.Run("runs/digits")
        >>> run.seeds, run.recipe
        ((0,), 'digits.cnn')
    """

    def __init__(self, path: str | Path, seed: int | None = None, *, trust: str | Iterable[str] | None = None) -> None:
        trust_modules(trust)
        self.path, inside = _split(Path(path).expanduser())
        if seed is not None and inside is not None and seed != inside:
            raise ValueError(f"seed={seed} contradicts the folder {path}: give {self.path} to choose a seed of it")
        seed = inside if seed is None else seed
        if not self.path.is_dir():
            what = "is a file" if self.path.exists() else "does not exist"
            raise ValueError(f"{self.path} {what}: give the run folder that `hypersphere train` printed at its end")
        self.config = _from_here(_settings(self.path), self.path)
        names = (_SEED.fullmatch(entry.name) for entry in self.path.iterdir() if entry.is_dir() and _began(entry))
        found = tuple(sorted(int(name[1]) for name in names if name))
        if seed is not None and seed not in found:
            raise ValueError(f"{self.path} has no seed {seed}: it has {', '.join(map(str, found)) or 'none'}")
        if not found:
            raise ValueError(f"{self.path} holds no seed yet: train it first")
        self.seeds = found if seed is None else (seed,)
        self._doubted: set[Path] = set()  # logs of which it was said that they have changed

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, seeds={self.seeds})"

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().name

    @property
    def recipe(self) -> str:
        """Name of the recipe that the settings came from."""
        return self.config.recipe

    @property
    def finished(self) -> tuple[int, ...]:
        """The seeds that were trained to the end."""
        return tuple(seed for seed in self.seeds if self.result(seed) is not None)

    def folder(self, seed: int | None = None) -> SeedFolder:
        """Return the folder of a seed.

        Args:
            seed: which one; None is the first.

        Returns:
            The folder of the seed, with methods to read its files.
        """
        if seed is not None and seed not in self.seeds:
            raise ValueError(f"{self.path} was opened for seed {', '.join(map(str, self.seeds))}, not {seed}")
        return SeedFolder(self.path, self.seeds[0] if seed is None else seed, self.config)

    def log(self, seed: int | None = None) -> list[dict[str, Any]]:
        """Read the log.

        Args:
            seed: which one; None is the first.

        Returns:
            The lines of the log as dictionaries, each with its ``step``; numbers that were not finite are missing. An
            incomplete last line is left out: it is being written, or the process was killed while writing it. A
            warning is logged if the log of a finished seed was changed since.

        Raises:
            ValueError: If a line is damaged.
        """
        folder = self.folder(seed)
        path, doubt = folder.log_path, folder.doubt_log()
        if doubt is not None and path not in self._doubted:
            self._doubted.add(path)
            logger.warning("%s", doubt)
        text = _text(path) if path.exists() else ""
        lines, torn = text.splitlines(), not text.endswith("\n")
        records = []
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
                step = int(record["step"])
                records.append({name: value for name, value in record.items() if value is not None} | {"step": step})
            except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
                if number < len(lines) or not torn:
                    raise ValueError(f"{path} is damaged in line {number}: {line[:60]!r} is not a record") from error
        return records

    def result(self, seed: int | None = None) -> dict[str, Any] | None:
        """Read ``result.json``.

        Args:
            seed: which one; None is the first.

        Returns:
            The result, or None while the seed is not finished.
        """
        return self.folder(seed).result

    def environment(self, seed: int | None = None) -> dict[str, Any]:
        """Read versions, device, commit and command.

        Args:
            seed: which one; None is the first.

        Returns:
            The values by name; empty if the file is not there.
        """
        path = self.folder(seed).path / "environment.json"
        return _mapping(path) if path.exists() else {}

    def facts(self, seed: int | None = None) -> Facts:
        """Read what the network was told of the data: classes and sizes.

        Args:
            seed: which one; None is the first.

        Returns:
            The facts of the data: number of classes, sizes and what else the network was built from.
        """
        path = self.folder(seed).path / "facts.json"
        if not path.exists():
            raise ValueError(f"{path.parent} has no facts.json: it holds no training that began")
        return facts_from(_mapping(path, self.folder(seed).known().get(path.name)), path)

    def own_loop(self, seed: int | None = None) -> dict[str, Any] | None:
        """Read what :class:`hypersphere.runs.Logger` noted.

        Args:
            seed: which one; None is the first.

        Returns:
            ``rebuilds``, ``why_not`` and ``data``; None for a training by the program.
        """
        path = self.folder(seed).path / LOOP
        return _mapping(path) if path.exists() else None

    @cached_property
    def command(self) -> str:
        """The command that trains the run again."""
        return str(self.environment().get("command") or f"hypersphere train {self.recipe}")


def _began(seed: Path) -> bool:
    return any(any(seed.glob(name)) for name in _TRACES)


def _from_here(config: Config, path: Path) -> Config:
    """Data that were named from where training was started are found from elsewhere, beside the run's folder."""
    run, there = run_path(config), path.resolve()
    if run.is_absolute() or there.parts[-len(run.parts) :] != run.parts:
        return config
    started = there.parents[len(run.parts) - 1]
    return config if started == Path.cwd() else data_from(config, started)


def continued_in(config: Config, folder: Path, *, data: bool = True) -> Config:
    """Return the settings of a run for where its folder lies now, as seen from the current folder.

    Args:
        config: the settings that the folder holds; its ``run.folder`` may be relative, or an earlier place.
        folder: the run folder.
        data: whether data that are named relative to where training was started are looked for there.

    Returns:
        The settings with this ``run.folder`` and ``run.name``; unchanged where they give this folder anyway.
    """
    if run_path(config).resolve() == folder.resolve():
        return config
    there = Path(os.path.abspath(folder))
    found = _from_here(config, there) if data else config
    return with_values(found, {"run.folder": str(there.parent), "run.name": there.name})


def _split(path: Path) -> tuple[Path, int | None]:
    """The run folder, and the seed where ``path`` is the folder of one."""
    here = path.resolve()
    seed = _SEED.fullmatch(here.name)
    if seed is None or not (here.parent / "config.json").exists():
        return path, None
    return (path.parent if path.name == here.name else here.parent), int(seed[1])


def _settings(folder: Path) -> Config:
    path = folder / "config.json"
    if not path.exists():
        raise ValueError(
            f"{folder} is not a run folder: it has no config.json. Give the folder that `hypersphere train` printed"
        )
    values = _mapping(path)
    check_trusted(values, path)
    try:
        return read_config(folder)
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} does not hold the settings of a run of this version: {error}") from error


def _mapping(path: Path, expected: str | None = None) -> dict[str, Any]:
    _text(path)
    found = read_json(path, expected)
    if not isinstance(found, dict):
        raise ValueError(f"{path} is damaged: it holds {type(found).__name__}, not a JSON object")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is damaged: it is not text ({error.reason} at byte {error.start})") from error
