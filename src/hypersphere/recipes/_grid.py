"""The commonest table: a row and a column of settings for each number."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ..config import Config
from .table import Cell

__all__ = ["grid"]


def grid(
    make: Callable[..., Config],
    columns: Iterable[str] | Mapping[str, Any],
    rows: Mapping[str, Sequence[float | None]],
) -> tuple[Cell, ...]:
    """Cells ``row.column``, row by row; the settings are ``make(row, column)``.

    Columns may be a mapping from the name of a column to what ``make`` is given for it.
    """
    settings = columns if isinstance(columns, Mapping) else {column: column for column in columns}
    return tuple(
        Cell(f"{row}.{column}", partial(make, row, setting), value)
        for row, values in rows.items()
        for (column, setting), value in zip(settings.items(), values, strict=True)
    )
