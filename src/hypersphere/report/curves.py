"""Logs as curves: one column of steps for each measurement of a run, one column of values for each seed."""

from __future__ import annotations

from typing import Any, NamedTuple

from .subject import Subject, finite

__all__ = ["Measure", "curves", "measures", "thin"]


class Measure(NamedTuple):
    """A name of the log as people read it; values are multiplied by ``factor``."""

    key: str
    label: str
    unit: str = ""
    factor: float = 1.0


_KNOWN = (
    Measure("accuracy", "Test accuracy", "%"),
    Measure("train_accuracy", "Training accuracy", "%", 100.0),
    Measure("loss", "Training loss"),
    Measure("test_loss", "Test loss"),
    Measure("energy", "Energy"),
    Measure("auc", "Area under ROC", "%"),
    Measure("eer", "Equal error rate", "%"),
    Measure("penalty", "Penalty"),
    Measure("lambda", "Margin λ"),
    Measure("lr", "Learning rate"),
    Measure("rate", "Steps per second"),
)
_BY_KEY = {measure.key: measure for measure in _KNOWN}
_LEFT_OUT = ("step", "best_accuracy", "accuracy_std")


def measures(subjects: list[Subject]) -> list[Measure]:
    """What the logs hold, known names first; what is zero everywhere is left out."""
    found: dict[str, None] = {}
    for subject in subjects:
        for seed in subject.seeds:
            for record in seed.log:
                found |= {key: None for key, value in record.items() if finite(value)}
    names = [key for key in (*_BY_KEY, *sorted(found)) if key in found and key not in _LEFT_OUT]
    return [_BY_KEY.get(key) or Measure(key, _title(key), _unit(key)) for key in dict.fromkeys(names)]


def curves(subject: Subject, wanted: list[Measure], points: int = 500) -> dict[str, Any]:
    """``{key: {"steps": [...], "seeds": [[...], ...]}}``; what is not finite is null."""
    found = {}
    for measure in wanted:
        columns = [
            {int(record["step"]): finite(record[measure.key]) for record in seed.log if measure.key in record}
            for seed in subject.seeds
        ]
        steps = sorted({step for column in columns for step in column})
        if not any(value is not None for column in columns for value in column.values()):
            continue
        rows = [[column.get(step) for column in columns] for step in steps]
        kept = thin([_mean(row) for row in rows], points)
        found[measure.key] = {
            "steps": [steps[i] for i in kept],
            "seeds": [[_rounded(rows[i][s], measure.factor) for i in kept] for s in range(len(columns))],
        }
    return found


def thin(values: list[float | None], points: int) -> list[int]:
    """Which values to draw so that no peak is lost: the ends, and of every stretch its lowest and highest."""
    if len(values) <= points:
        return list(range(len(values)))
    kept = {0, len(values) - 1}
    stretches = max(points // 2 - 1, 1)
    for index in range(stretches):
        start, stop = (len(values) * i // stretches for i in (index, index + 1))
        known = [(value, place) for place, value in enumerate(values[start:stop], start) if value is not None]
        kept |= {min(known)[1], max(known)[1]} if known else {start}
    return sorted(kept)


def _mean(row: list[float | None]) -> float | None:
    known = [value for value in row if value is not None]
    return sum(known) / len(known) if known else None


def _rounded(value: float | None, factor: float) -> float | None:
    return None if value is None else float(f"{value * factor:.5g}")


def _title(key: str) -> str:
    if key.startswith("tar@"):
        return f"True accepts at {key.removeprefix('tar@')}"
    if key.startswith("energy/"):
        return key.removeprefix("energy/").removesuffix(".weight")
    return key.replace("_", " ")


def _unit(key: str) -> str:
    return "%" if key.startswith("tar@") or key.endswith("accuracy") else ""
