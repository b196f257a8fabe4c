"""Logs as curves: one column of steps for each measurement of a run, one column of values for each seed."""

from __future__ import annotations

from typing import Any

from ..runs.quantities import Quantity, declared, quantity
from .subject import Subject, finite

_LEFT_OUT = ("step", "best_accuracy", "accuracy_std")


def logged(subjects: list[Subject]) -> list[Quantity]:
    """What the logs hold, declared names first; what is zero everywhere is left out."""
    found: dict[str, None] = {}
    for subject in subjects:
        for seed in subject.seeds:
            for record in seed.log:
                found |= {key: None for key, value in record.items() if finite(value)}
    declared_keys = [one.key for one in declared()]
    names = [key for key in (*declared_keys, *sorted(found)) if key in found and key not in _LEFT_OUT]
    return [quantity(key) for key in dict.fromkeys(names)]


def curves(subject: Subject, wanted: list[Quantity], points: int = 500) -> dict[str, Any]:
    """``{key: {"steps": [...], "seeds": [[...], ...]}}``; what is not finite is null."""
    found = {}
    for one in wanted:
        columns = [
            {int(record["step"]): finite(record[one.key]) for record in seed.log if one.key in record}
            for seed in subject.seeds
        ]
        steps = sorted({step for column in columns for step in column})
        if not any(value is not None for column in columns for value in column.values()):
            continue
        rows = [[column.get(step) for column in columns] for step in steps]
        kept = thin([_mean(row) for row in rows], points)
        found[one.key] = {
            "steps": [steps[i] for i in kept],
            "seeds": [[_rounded(rows[i][s], one.factor) for i in kept] for s in range(len(columns))],
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
