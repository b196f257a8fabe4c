"""``Run(path)``: what a run folder says, for everything that looks at runs after training."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

from .data import Facts
from .files import read_json
from .folder import SeedFolder, read_config

__all__ = ["Run"]


class Run:
    """A run folder, or the folder of one seed in it, read only.

    Anything that is missing, foreign or torn is a ``ValueError`` that names the file. A last line of the log that was
    cut off by a crash is not an error: training would drop it, too.

    Args:
        path: ``RUN`` or ``RUN/seed-0``.
        seed: look at this seed only; None: at all of them.
    """

    def __init__(self, path: str | Path, seed: int | None = None) -> None:
        self.path = Path(path).expanduser()
        if self.path.name.startswith("seed-") and (self.path.parent / "config.json").exists():
            seed, self.path = int(self.path.name.removeprefix("seed-")), self.path.parent
        if not self.path.is_dir():
            raise ValueError(f"{self.path} is no folder: give the run folder that `hypersphere train` named at its end")
        self.config = read_config(self.path)
        found = tuple(sorted(int(entry.name.removeprefix("seed-")) for entry in self.path.glob("seed-*")))
        if seed is not None and seed not in found:
            raise ValueError(f"{self.path} has no seed {seed}: it has {', '.join(map(str, found)) or 'none'}")
        if not found:
            raise ValueError(f"{self.path} holds no seed yet: train it first")
        self.seeds = found if seed is None else (seed,)

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, seeds={self.seeds})"

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().name

    @property
    def recipe(self) -> str:
        return self.config.recipe

    @property
    def finished(self) -> tuple[int, ...]:
        """The seeds that were trained to the end."""
        return tuple(seed for seed in self.seeds if self.result(seed) is not None)

    def folder(self, seed: int | None = None) -> SeedFolder:
        """The folder of a seed; None: of the first."""
        return SeedFolder(self.path, self.seeds[0] if seed is None else seed)

    def log(self, seed: int | None = None) -> list[dict[str, Any]]:
        """The lines of the log, each with its ``step``."""
        path = self.folder(seed).log_path
        lines = path.read_text().splitlines() if path.exists() else []
        records = []
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
                records.append({"step": int(record["step"]), **record})
            except (ValueError, KeyError, TypeError) as error:
                if number < len(lines):
                    raise ValueError(f"{path} is damaged in line {number}: {line[:60]!r} is no record") from error
        return records

    def result(self, seed: int | None = None) -> dict[str, Any] | None:
        """``result.json`` of a seed, None while it is not done."""
        found = self.folder(seed).result
        if found is not None and not (isinstance(found, dict) and "final_accuracy" in found):
            raise ValueError(f"{self.folder(seed).path / 'result.json'} holds no result of a training run")
        return found

    def environment(self, seed: int | None = None) -> dict[str, Any]:
        """Versions, device, commit and command; empty if the file is not there."""
        path = self.folder(seed).path / "environment.json"
        return dict(read_json(path)) if path.exists() else {}

    def facts(self, seed: int | None = None) -> Facts:
        """What the network was told of the data: classes and sizes."""
        path = self.folder(seed).path / "facts.json"
        if not path.exists():
            raise ValueError(f"{path.parent} has no facts.json: it holds no training that began")
        values = read_json(path)
        tuples = {name: values.get(name) and tuple(values[name]) for name in ("image_size", "classes")}
        return Facts(**{**values, **tuples, "classes": tuples["classes"] or ()})

    @cached_property
    def command(self) -> str:
        """What to type to train it again."""
        return str(self.environment().get("command") or f"hypersphere train {self.recipe}")
