"""``hypersphere list``: what there is to train, with published numbers and ours, and all that has a name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from .._core.checks import closest
from .._core.registry import is_address
from ..recipes import results, tables
from .arguments import LISTED, NAMED

_OTHER_WORDS = {"losses": "heads", "networks": "models", "data": "datasets"}


def run(options: argparse.Namespace) -> int:
    """Run ``hypersphere list`` and return its exit status."""
    what, pattern, found = _OTHER_WORDS.get(options.what, options.what), options.pattern, False
    if what not in LISTED:  # the name of a table, or of a cell of one
        what, pattern = "recipes", what if pattern == "*" else f"{what}.{pattern}"
    for line in _lines(what, pattern, options.results):
        print(line)
        found = True
    if not found:
        unknown = what == "recipes" and options.what not in LISTED
        names = (
            [*LISTED, *tables()] if unknown else [one.name for one in NAMED[what].entries()] if what in NAMED else []
        )
        print(f"hypersphere list: no {what} match {pattern!r}{closest(pattern, names)}", file=sys.stderr)
        if unknown:
            print(f"give one of {', '.join(LISTED)}, or the name of a table", file=sys.stderr)
        return 2 if unknown else 1
    if what == "tables":
        print("\n`hypersphere list TABLE` shows the cells, `hypersphere train TABLE.CELL` trains one.")
    return 0


def _lines(what: str, pattern: str, measured: Path | None) -> Iterator[str]:
    if what in NAMED:
        named = NAMED[what]
        for entry in (named.entry(pattern),) if is_address(pattern) else named.entries():
            if fnmatch(entry.name, pattern):
                yield f"{entry.name:22s} {entry.about or entry.label}"
                if entry.name == pattern:
                    yield from (f"  {one.name}={one.default!r}: {one.help}".rstrip(": ") for one in entry.options)
    else:
        width = max(map(len, tables()))
        for table in tables().values():
            whole = table.name == pattern
            names = [cell.name for cell in table.cells if whole or fnmatch(f"{table.name}.{cell.name}", pattern)]
            if what == "recipes" and names:
                yield results.render(table, measured or results.measured(table), names) + "\n"
            elif what == "tables" and fnmatch(table.name, pattern):
                word = "cell " if len(table.cells) == 1 else "cells"
                yield f"{table.name:{width}s} {len(table.cells):3d} {word}  {table.title}"
