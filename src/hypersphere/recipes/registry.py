"""Recipes by name: ``table.cell``, or the one cell of a table by the table's name alone."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from fnmatch import fnmatch
from functools import cache

from ..config import Config
from . import (
    appendices,
    appendices_ef,
    digits,
    open_sets,
    own,
    paper,
    released,
    thesis2,
    thesis4,
    thesis5,
    thesis6,
    thesis7,
)
from .table import Table

_FILES = (
    paper,
    thesis2,
    thesis4,
    thesis5,
    thesis6,
    thesis7,
    appendices,
    appendices_ef,
    released,
    open_sets,
    digits,
    own,
)


@cache
def tables() -> dict[str, Table]:
    """Return every table of this package, in the order of the documents.

    Returns:
        All tables by name, in the order of the documents.

    Example:
        >>> from hypersphere import recipes
        >>> "paper.table1" in recipes.tables()
        True
    """
    found = {table.name: table for file in _FILES for table in file.TABLES}
    return dict(sorted(found.items(), key=lambda item: _order(item[0])))


def find_table(name: str) -> Table:
    """Find a table.

    Args:
        name: the name of a table, without that of a cell.

    Returns:
        The table with its cells.

    Raises:
        ValueError: If there is no such table. The message says which are near, or which table has a cell of that name.

    Example:
        >>> from hypersphere import recipes
        >>> recipes.find_table("paper.table1").name
        'paper.table1'
    """
    if name in tables():
        return tables()[name]
    if name in _places():
        table, index = _places()[name]
        cell = table.cells[index].name  # a training that several cells share may have another name than any of them
        what = "cell" if name == f"{table.name}.{cell}" else "training"
        raise ValueError(f"table={name!r} is a {what} of {table.name}: give {table.name} --cells {cell!r}")
    raise ValueError(f"table={name!r} is unknown: {_hint(name, tables(), 'tables')}")


def list_recipes(pattern: str = "*") -> list[str]:
    """List the recipes.

    Args:
        pattern: shell pattern of the names ``table.cell``.

    Returns:
        The names ``TABLE.CELL`` that match.

    Example:
        >>> from hypersphere import recipes
        >>> recipes.list_recipes("digits.*")
        ['digits.spherenet', 'digits.cnn']
    """
    names = [f"{table.name}.{cell.name}" for table in tables().values() for cell in table.cells]
    return [name for name in names if fnmatch(name, pattern)]


def get(name: str) -> Config:
    """Return the settings of a recipe.

    Args:
        name: ``table.cell``; a table's name alone means its first cell.

    Returns:
        The settings of the recipe, which :func:`hypersphere.train.run` takes.

    Raises:
        ValueError: If there is no such recipe.

    Example:
        >>> from hypersphere import recipes
        >>> recipes.get("digits.cnn").model.name
        'cnn3'
    """
    if name in tables():
        name = f"{name}.{tables()[name].cells[0].name}"
    table, cell = find(name)
    return table.cells[cell].config(table.name)


@cache
def _places() -> dict[str, tuple[Table, int]]:
    """Table and number of every cell by ``table.cell``, and of the first cell of a training that several share."""
    places: dict[str, tuple[Table, int]] = {}
    for table in tables().values():
        for index, cell in enumerate(table.cells):
            places.setdefault(f"{table.name}.{cell.training}", (table, index))
    for table in tables().values():
        for index, cell in enumerate(table.cells):
            places[f"{table.name}.{cell.name}"] = (table, index)
    return places


def find(name: str) -> tuple[Table, int]:
    """Find a cell.

    Args:
        name: ``table.cell``, or the name of a training that several cells share.

    Returns:
        The table, and the position of the cell in it.

    Raises:
        ValueError: If there is no such recipe.

    Example:
        >>> from hypersphere import recipes
        >>> recipes.find("digits.cnn")[0].name
        'digits'
    """
    names = _places()
    if name not in names:
        raise ValueError(f"recipe {name!r} is unknown: {_hint(name, names, 'recipes')}")
    return names[name]


def _hint(name: str, names: Iterable[str], kind: str) -> str:
    """What may have been meant, or where to look."""
    names = list(names)
    near = [one for one in names if one.startswith(name)] or difflib.get_close_matches(name, names, 4, 0.5)
    shown = ", ".join(near[:6]) + (", ..." if len(near) > 6 else "")
    return f"did you mean {shown}?" if near else f"see `hypersphere list {kind}`"


def _order(name: str) -> list[tuple[int, str]]:
    parts = name.replace("table", "table.").replace("figure", "figure.").split(".")
    return [(int(part), "") if part.isdigit() else (1000, part) for part in parts]
