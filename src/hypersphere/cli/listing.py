"""``hypersphere list``: what there is to train, with published numbers and ours."""

from __future__ import annotations

import argparse
from fnmatch import fnmatch
from pathlib import Path

from .. import data, models
from ..recipes import results, tables

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", default="tables", choices=("tables", "recipes", "models", "datasets"))
    parser.add_argument("pattern", nargs="?", default="*", help="shell pattern on names, e.g. 'paper.*'")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of measured numbers")


def run(options: argparse.Namespace) -> int:
    if options.what == "models":
        for name in models.list_models(options.pattern):
            print(f"{name:22s} {models.describe(name).splitlines()[0].split(': ', 1)[1]}")
    elif options.what == "datasets":
        for name in data.list_datasets(options.pattern):
            print(f"{name:14s} {data.describe(name)}")
    elif options.what == "tables":
        for table in tables().values():
            if fnmatch(table.name, options.pattern):
                print(f"{table.name:18s} {len(table.cells):3d} cells  {table.title}")
        print("\n`hypersphere list recipes 'TABLE*'` shows the cells, `hypersphere train TABLE.CELL` trains one.")
    else:
        for table in tables().values():
            names = [cell.name for cell in table.cells if fnmatch(f"{table.name}.{cell.name}", options.pattern)]
            if names:
                print(results.render(table, options.results, names) + "\n")
    return 0
