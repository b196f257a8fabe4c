"""What the files of this package hold: tables of the documents, their cells, and the published number of each.

A table stands on the function that makes its settings, as it is printed::

    @TABLES.add("thesis.table7.8", "ResNets on CIFAR-100", "error")
    @grid('''
        row       resnet20  resnet32
        baseline     31.11     30.16
        gs           30.73     29.56
    ''')
    def table7_8(method: str, network: str) -> Config: ...

``none`` is a cell without a number, as is every cell of a line without numbers; ``-`` is no cell. A row or column may
be written ``name=setting``, where the function is given another value than the name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..config import Config

Number = float | None
Make = Callable[..., Config]


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

    @property
    def at_start(self) -> bool:
        """Whether its number is known before the first step, so that a training of any length gives it."""
        return self.measure == "initial_energy"

    @property
    def is_time(self) -> bool:
        """Whether its number is a time, which is that of one device, shared by nobody."""
        return self.measure == "seconds_per_100_steps"

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
        runs: how many runs a printed number is the mean of, where the document says so.

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
    runs: int = 1

    def ours(self, value: float, measure: str) -> float:
        """Convert a measurement to what the table prints: accuracies to errors where it prints errors.

        Args:
            value: the measured number, as the run logged it.
            measure: name of the measurement, such as ``"accuracy"`` or ``"top5_accuracy"``.

        Returns:
            Our number in the unit that the table prints.
        """
        return 100.0 - value if self.metric == "error" and measure.endswith("accuracy") else value


class Tables(list[Table]):
    """The tables of a file.

    Args:
        runs: how many runs their printed numbers are the means of.
    """

    def __init__(self, runs: int = 1) -> None:
        super().__init__()
        self._runs = runs

    def add(self, name: str, title: str, metric: str, note: str = "") -> Callable[[Cells], Cells]:
        """Declare a table of the cells that stand between this and the function that makes their settings."""

        def declare(made: Cells) -> Cells:
            self.append(Table(name, title, metric, made.cells, note, self._runs))
            return Cells(made.make)

        return declare


@dataclass(frozen=True)
class Cells:
    """A function that makes settings, and the cells that ask it for them."""

    make: Make
    cells: tuple[Cell, ...] = ()

    def __call__(self, *args: Any, **settings: Any) -> Config:
        return self.make(*args, **settings)


def cells(of: Callable[[Make], Iterable[Cell]]) -> Callable[[Make], Cells]:
    """Declare the cells ``of(make)`` of the decorated function ``make``, before those that it has already."""

    def declare(made: Make) -> Cells:
        below = made if isinstance(made, Cells) else Cells(made)
        return Cells(below.make, (*of(below.make), *below.cells))

    return declare


def column(rows: str | Mapping[str, Number] | Iterable[str], measure: str = "accuracy") -> Callable[[Make], Cells]:
    """Cells ``row`` with the settings ``make(row)``. Names alone mean rows without a published number."""
    if isinstance(rows, str):
        rows = {row: number for row, _, number in printed(f"row number\n{rows.strip()}")}
    numbers = rows if isinstance(rows, Mapping) else dict.fromkeys(rows)
    named = [(*_named(row), number) for row, number in numbers.items()]
    return cells(lambda make: (Cell(row, partial(make, of), number, measure=measure) for row, of, number in named))


def grid(text: str, measure: str = "accuracy") -> Callable[[Make], Cells]:
    """Cells ``row.column``, row by row, with the settings ``make(row, column)``."""

    def of(make: Make) -> Iterator[Cell]:
        for line, head, number in printed(text):
            (row, one), (column, other) = _named(line), _named(head)
            yield Cell(f"{row}.{column}", partial(make, one, other), number, measure=measure)

    return cells(of)


def measured(text: str) -> Callable[[Make], Cells]:
    """Cells ``row.column`` that are measured on one training a row, ``make(row)``; a column sets its measurement."""

    def of(make: Make) -> Iterator[Cell]:
        for row, head, number in printed(text):
            column, measure = _named(head)
            yield Cell(f"{row}.{column}", partial(make, row), number, measure=measure, run=row)

    return cells(of)


def printed(text: str) -> Iterator[tuple[str, str, Number]]:
    """(row, column, number) of every cell of a table as it is printed, row by row."""
    head, *lines = (line.split() for line in text.strip().splitlines())
    for row, *numbers in lines:
        for column, number in zip(head[1:], numbers or ["none"] * len(head[1:]), strict=True):
            if number != "-":
                yield row, column, None if number == "none" else float(number)


def _named(word: str) -> tuple[str, Any]:
    """The name of a row or column, and what it sets."""
    name, equals, setting = word.partition("=")
    try:
        return name, ast.literal_eval(setting) if equals else name
    except (ValueError, SyntaxError):
        return name, setting
