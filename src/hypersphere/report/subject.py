"""What is reported on: runs under names that tell them apart, their logs read once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._core.registries import MEASUREMENTS
from ..runs import Run


@dataclass(frozen=True)
class Seed:
    """One training: its log and, once it is done, its result; ``doubt`` says if the log was changed since."""

    number: int
    log: list[dict[str, Any]]
    result: dict[str, Any] | None
    environment: dict[str, Any]
    doubt: str | None = None

    @property
    def step(self) -> int:
        """How far it has come."""
        return max((int(record["step"]) for record in self.log), default=0)

    def final(self, name: str = "accuracy") -> float | None:
        """A measurement of the final network, or the newest one of a training that continues."""
        if self.result is not None:
            value = self.result.get("metrics", {}).get(name)
            return finite(self.result["final_accuracy"] if name == "accuracy" and value is None else value)
        return finite(next((record[name] for record in reversed(self.log) if name in record), None))

    @property
    def best(self) -> tuple[float | None, int | None]:
        """The best accuracy of all evaluations, and its step."""
        if self.result is not None:
            return finite(self.result.get("best_accuracy")), self.result.get("best_step")
        scored = [(finite(record.get("accuracy")), int(record["step"])) for record in self.log]
        known = [(value, -step) for value, step in scored if value is not None]
        return (max(known)[0], -max(known)[1]) if known else (None, None)


@dataclass(frozen=True)
class Subject:
    """A run and the name it has in the report."""

    run: Run
    label: str
    seeds: tuple[Seed, ...]

    @property
    def results(self) -> list[dict[str, Any]]:
        """Of each finished seed."""
        return [seed.result for seed in self.seeds if seed.result is not None]

    @property
    def finals(self) -> list[float]:
        """Final accuracy of each finished seed, in percent."""
        values = [seed.final() for seed in self.seeds if seed.result is not None]
        return [value for value in values if value is not None]

    @property
    def score(self) -> str:
        """What its accuracy is the accuracy of."""
        return MEASUREMENTS.label(self.run.config.evaluation.protocol)

    @property
    def shown_seed(self) -> int:
        """The seed whose network is looked at: the first that is done, else the first."""
        return next((seed.number for seed in self.seeds if seed.result is not None), self.seeds[0].number)


def subjects(paths: Sequence[str | Path]) -> list[Subject]:
    """Read every run; folders of the same name are told apart by those above them."""
    if not paths:
        raise ValueError("no run folder was named: give one or more that `hypersphere train` wrote")
    runs = [Run(path) for path in paths]
    places = [(run.path.resolve(), run.seeds) for run in runs]
    for index, place in enumerate(places):
        if place in places[:index]:
            raise ValueError(f"{paths[index]} is named twice: name every run once")
    return [Subject(run, label, _seeds(run)) for run, label in zip(runs, _labels(paths, runs), strict=True)]


def mean_and_spread(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation; None for one value."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, None
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def finite(value: Any) -> float | None:
    """A finite number, or None where there is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _seeds(run: Run) -> tuple[Seed, ...]:
    return tuple(
        Seed(seed, run.log(seed), run.result(seed), run.environment(seed), run.folder(seed).doubt_log())
        for seed in run.seeds
    )


def _labels(paths: Sequence[str | Path], runs: Sequence[Run]) -> list[str]:
    parts = [run.path.resolve().parts for run in runs]
    single = [
        f" seed {run.seeds[0]}" if Path(path).name.startswith("seed-") else ""
        for path, run in zip(paths, runs, strict=True)
    ]
    for depth in range(1, max(map(len, parts)) + 1):
        labels = ["/".join(one[-depth:]) + seed for one, seed in zip(parts, single, strict=True)]
        if len(set(labels)) == len(labels):
            return labels
    return labels
