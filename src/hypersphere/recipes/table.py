"""What a recipe module holds: a table of the documents, its cells, and the published number of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ..config import Config

__all__ = ["Cell", "Table", "cells"]


@dataclass(frozen=True)
class Cell:
    """One number of a table and the settings that should give it.

    Args:
        name: of the cell within its table, without spaces.
        make: the settings, made when asked for.
        published: the number as printed, None where the table prints none (or "N/C").
        note: what stands in the way, where the data cannot be had, e.g. the folder it needs.
        measure: the measurement that is compared, a name in ``metrics`` of the result.
        run: name of the training, where several cells are measured on one; None: the cell's own name.
    """

    name: str
    make: Callable[[], Config]
    published: float | None
    note: str = ""
    measure: str = "accuracy"
    run: str | None = None

    @property
    def training(self) -> str:
        """Name of the training within the table."""
        return self.run or self.name

    def config(self, table: str) -> Config:
        """The settings, named after the training."""
        return replace(self.make(), recipe=f"{table}.{self.training}")


@dataclass(frozen=True)
class Table:
    """A table or figure.

    ``metric`` is ``"accuracy"`` or ``"error"`` in percent (an error is 100 − an accuracy), or what else the
    numbers are, e.g. ``"inception score"``.
    """

    name: str
    title: str
    metric: str
    cells: tuple[Cell, ...]
    note: str = ""

    def ours(self, value: float, measure: str = "accuracy") -> float:
        """A measurement as the table counts: accuracies as errors where it prints errors."""
        return 100.0 - value if self.metric == "error" and measure.endswith("accuracy") else value


def cells(rows: Iterable[tuple[str, Callable[[], Config], float | None]]) -> tuple[Cell, ...]:
    """Cells from (name, settings, published)."""
    return tuple(Cell(name, make, published) for name, make, published in rows)
