"""What a recipe module holds: a table of the documents, its cells, and the published number of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ..train import Config

__all__ = ["Cell", "Table", "cells"]


@dataclass(frozen=True)
class Cell:
    """One number of a table and the settings that should give it.

    Args:
        name: of the cell within its table, without spaces.
        make: the settings, made when asked for.
        published: the number as printed, None where the table prints none (or "N/C").
        data: what stands in the way, where the data cannot be had, e.g. the folder it needs.
    """

    name: str
    make: Callable[[], Config]
    published: float | None
    note: str = ""

    def config(self, table: str) -> Config:
        """The settings, named after the cell."""
        return replace(self.make(), recipe=f"{table}.{self.name}")


@dataclass(frozen=True)
class Table:
    """A table or figure: ``metric`` is ``"accuracy"`` or ``"error"``, in percent."""

    name: str
    title: str
    metric: str
    cells: tuple[Cell, ...]
    note: str = ""

    def ours(self, accuracy: float) -> float:
        """An accuracy in percent as the table counts."""
        return accuracy if self.metric == "accuracy" else 100.0 - accuracy


def cells(rows: Iterable[tuple[str, Callable[[], Config], float | None]]) -> tuple[Cell, ...]:
    """Cells from (name, settings, published)."""
    return tuple(Cell(name, make, published) for name, make, published in rows)
