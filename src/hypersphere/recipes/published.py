"""A run beside the numbers that the documents print for its recipe: one comparison for tables, report and cards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..config import Config, changed
from ..runs.quantities import quantity
from .registry import find, get
from .table import Cell, Table


@dataclass(frozen=True)
class Comparison:
    """One cell of a table: the printed number, and ours as the table counts (mean over the finished seeds).

    Args:
        cell: Name of the cell within the table.
        metric: What the number is: the table's metric, or the label of the measurement where that is another one.
        unit: unit of the numbers: ``"%"``, or an empty text for plain numbers.
        published: The number as printed; None where the table prints none.
        ours: Our number; None where it was not measured.

    Example:
        >>> from hypersphere.recipes import Comparison
        >>> round(Comparison("sigmoid", "accuracy", "%", 91.08, 92.16).difference, 2)
        1.08
    """

    cell: str
    metric: str
    unit: str
    published: float | None
    ours: float | None

    @property
    def difference(self) -> float | None:
        """Ours minus the printed number."""
        return None if self.published is None or self.ours is None else self.ours - self.published


@dataclass(frozen=True)
class Published:
    """The table of a recipe, its numbers beside ours, and the settings in which the run differs from the recipe.

    Attributes:
        table: Name of the table, such as ``"paper.table1"``.
        title: Title of the table in words.
        metric: What its numbers are: ``"accuracy"`` or ``"error"`` in percent, or another measure.
        note: Remarks on the table, such as deviations of the recipe from the text.
        cells: The numbers that the run should give.
        changed: Settings that differ from the recipe, with both values.

    Example:
        >>> from hypersphere import recipes
        >>> found = recipes.published(recipes.get("digits.cnn"), [])
        >>> found.table, found.changed
        ('digits', {})
    """

    table: str
    title: str
    metric: str
    note: str
    cells: tuple[Comparison, ...]
    changed: dict[str, tuple[Any, Any]]


def published(config: Config, results: Sequence[Mapping[str, Any]]) -> Published | None:
    """Compare the results of a run with the numbers of the documents.

    Args:
        config: The settings of the run, whose ``recipe`` names the cell.
        results: ``result.json`` of each finished seed.

    Returns:
        The numbers beside ours; None for a recipe that no table holds.

    Example:
        >>> from hypersphere import recipes
        >>> recipes.published(recipes.get("digits.cnn"), []).metric
        'accuracy'
    """
    try:
        table, index = find(config.recipe)
    except ValueError:
        return None
    training = table.cells[index].training
    cells = [_compared(table, cell, results) for cell in table.cells if cell.training == training]
    return Published(
        table.name, table.title, table.metric, table.note, tuple(cells), changed(get(config.recipe), config)
    )


def mean(table: Table, cell: Cell, results: Sequence[Mapping[str, Any]]) -> tuple[float | None, int]:
    """The cell's measurement as its table counts, mean over the results that hold it, and of how many."""
    numbers = [number_of(result, cell.measure) for result in results]
    values = [table.ours(value, cell.measure) for value in numbers if value is not None]
    return (sum(values) / len(values) if values else None), len(values)


def _compared(table: Table, cell: Cell, results: Sequence[Mapping[str, Any]]) -> Comparison:
    in_percent = table.metric in ("accuracy", "error") and cell.measure.endswith("accuracy")
    other = table.metric in ("accuracy", "error") and not in_percent
    known = quantity(cell.measure)
    metric, unit = (known.label, known.unit) if other else (table.metric, "%" if in_percent else "")
    return Comparison(cell.name, metric, unit, cell.published, mean(table, cell, results)[0])


def number_of(result: Mapping[str, Any], measure: str) -> float | None:
    """The number of one seed; None if that was not measured, or is not finite."""
    value = result.get("metrics", {}).get(measure)
    if value is None and measure == "accuracy":
        value = result.get("final_accuracy")
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None


def has_diverged(result: Mapping[str, Any], measure: str) -> bool:
    """Whether the training of one seed diverged before it had this number."""
    return "diverged" in result and number_of(result, measure) is None
