"""``result.json`` of a seed: there once it is done, and then whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .files import read_json


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
    for name in ("final_accuracy", "best_accuracy"):
        value = found.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{path} holds no result of a training run: it has no number {name!r}. {remedy}")
    return found
