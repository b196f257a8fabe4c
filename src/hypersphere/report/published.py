"""A run beside the number that the documents print for its recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..config import changed
from ..recipes import find, get
from .subject import Subject, mean_and_spread

__all__ = ["Comparison", "Published", "published"]


@dataclass(frozen=True)
class Comparison:
    """One cell of a table: the printed number, and ours as the table counts (mean over the finished seeds)."""

    cell: str
    measure: str
    published: float | None
    ours: float | None

    @property
    def difference(self) -> float | None:
        return None if self.published is None or self.ours is None else self.ours - self.published


@dataclass(frozen=True)
class Published:
    """The table of a recipe, and where the run left its settings."""

    table: str
    title: str
    metric: str
    note: str
    cells: tuple[Comparison, ...]
    changed: dict[str, tuple[Any, Any]]

    @property
    def unit(self) -> str:
        return "%" if self.metric in ("accuracy", "error") else ""


def published(subject: Subject) -> Published | None:
    """None for a recipe that no table holds."""
    try:
        table, index = find(subject.run.recipe)
    except ValueError:
        return None
    training = table.cells[index].training
    cells = []
    for cell in (one for one in table.cells if one.training == training):
        values = [seed.final(cell.measure) for seed in subject.seeds if seed.result is not None]
        known = [table.ours(value) for value in values if value is not None]
        ours = mean_and_spread(known)[0] if known else None
        cells.append(Comparison(cell.name, cell.measure, cell.published, ours))
    return Published(
        table.name,
        table.title,
        table.metric,
        table.note,
        tuple(cells),
        changed(get(subject.run.recipe), subject.run.config),
    )
