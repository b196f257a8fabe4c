"""What the files of this package hold: tables of the documents, their cells, and the published number of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..config import Config

__all__ = ["Cell", "Table", "column", "grid", "measured"]

Number = float | None


@dataclass(frozen=True)
class Cell:
    """One number of a table and the settings that should give it.

    Args:
        name: name of the cell within its table, without spaces.
        make: makes the settings when they are asked for.
        published: the number as printed; None where the table prints none (or "N/C").
        note: what prevents it where the data are not available, e.g. the folder it needs.
        measure: the measurement that is compared, a name in ``metrics`` of the result.
        run: name of the training, where several cells are evaluated on one; None is the cell's own name.

    Example:
        >>> from hypersphere import recipes
        >>> table, number = recipes.find("digits.cnn")
        >>> table.cells[number].name
        'cnn'
    """

    name: str
    make: Callable[[], Config]
    published: Number
    note: str = ""
    measure: str = "accuracy"
    run: str | None = None

    @property
    def training(self) -> str:
        """Name of the training within the table."""
        return self.run or self.name

    def config(self, table: str) -> Config:
        """Make the settings, named after the training.

        Args:
            table: name of the table that the cell belongs to.

        Returns:
            The settings of this training, named after it.
        """
        return replace(self.make(), recipe=f"{table}.{self.training}")


@dataclass(frozen=True)
class Table:
    """A table or figure of the documents.

    Args:
        name: its name, e.g. ``"paper.table1"``.
        title: title of the table in words, for lists and the reference.
        metric: ``"accuracy"`` or ``"error"`` in percent (an error is 100 − an accuracy), or what else the numbers are,
            e.g. ``"inception score"``.
        cells: the cells: a name, a published number and the training behind it.
        note: remarks on the table, such as deviations of the recipe from the text.

    Example:
        >>> from hypersphere import recipes
        >>> recipes.tables()["paper.table1"].metric
        'accuracy'
    """

    name: str
    title: str
    metric: str
    cells: tuple[Cell, ...]
    note: str = ""

    def ours(self, value: float, measure: str) -> float:
        """Convert a measurement to what the table prints: accuracies to errors where it prints errors.

        Args:
            value: the measured number, as the run logged it.
            measure: name of the measurement, such as ``"accuracy"`` or ``"top5_accuracy"``.

        Returns:
            Our number in the unit that the table prints.
        """
        return 100.0 - value if self.metric == "error" and measure.endswith("accuracy") else value


def column(
    make: Callable[..., Config], rows: Mapping[str, Number] | Iterable[str], measure: str = "accuracy"
) -> tuple[Cell, ...]:
    """Cells ``row`` with the settings ``make(row)``. Names alone mean rows without a published number."""
    numbers = rows if isinstance(rows, Mapping) else dict.fromkeys(rows)
    return tuple(Cell(row, partial(make, row), value, measure=measure) for row, value in numbers.items())


def grid(
    make: Callable[..., Config],
    columns: Iterable[str] | Mapping[str, Any],
    rows: Mapping[str, Sequence[Number]] | Iterable[str],
) -> tuple[Cell, ...]:
    """Cells ``row.column``, row by row, with the settings ``make(row, column)``.

    Args:
        make: Makes the settings.
        columns: Names, or a mapping from the name of a column to what ``make`` is given for it.
        rows: The published numbers by row, one a column; names alone mean rows without published numbers.
    """
    settings = columns if isinstance(columns, Mapping) else {column: column for column in columns}
    numbers = rows if isinstance(rows, Mapping) else dict.fromkeys(rows, (None,) * len(settings))
    return tuple(
        Cell(f"{row}.{column}", partial(make, row, setting), value)
        for row, values in numbers.items()
        for (column, setting), value in zip(settings.items(), values, strict=True)
    )


def measured(
    make: Callable[..., Config], measures: Mapping[str, str], rows: Mapping[str, Sequence[Number]]
) -> tuple[Cell, ...]:
    """Cells ``row.column`` that are measured on one training a row, ``make(row)``.

    ``measures`` maps the name of a column to its measurement.
    """
    return tuple(
        Cell(f"{row}.{column}", partial(make, row), value, measure=measure, run=row)
        for row, values in rows.items()
        for (column, measure), value in zip(measures.items(), values, strict=True)
    )
