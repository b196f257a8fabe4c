"""Put the measurements of several results folders together: python tools/merge_results.py FOLDER... --into results

Machines that share the cells of a table each write their own folder; a measurement of the same training, seed, number
of steps and changed settings replaces an earlier one. A training that stands in several tables then has its numbers in
all of them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from hypersphere.recipes import results, shared, tables


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--into", type=Path, default=Path("results"))
    options = parser.parse_args()
    try:
        merge(options.folders, options.into)
        share(options.into)
    except (OSError, ValueError) as error:
        print(f"merge_results: {error}", file=sys.stderr)
        return 2
    return 0


def merge(folders: list[Path], into: Path) -> None:
    """Add the measurements of every folder to those of the last one."""
    into.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        for table in tables().values():
            new = results.read(table, folder)
            if new:
                rows = {results.key(one): one for one in [*results.read(table, into), *new]}
                results.write(table, rows.values(), into)
                print(f"{into / table.name}.json: {len(rows)} measurements")


def share(folder: Path) -> None:
    """Give every table the numbers that another has of the same training, in place of copies of older ones."""
    known = shared.known(folder, tables().values())
    seeds = {one["seed"] for measurements in known.values() for one in measurements}
    for table in tables().values():
        has = {results.key(one): one for one in results.read(table, folder)}
        for training, cell in {cell.training: cell for cell in table.cells}.items():
            config = cell.config(table.name)
            entry = {"cell": training, "steps": config.schedule.steps}
            found = shared.same(config, seeds, known)
            mine = {seed: has.get(results.key({**entry, "seed": seed})) for seed in found}
            new = {seed: one for seed, one in found.items() if _is_newer(one, mine[seed], config.recipe)}
            shared.adopt(table, training, new, folder, {})
            for seed, one in sorted(new.items()):
                print(f"{table.name}.{training}: seed {seed} as {one['recipe']}")


def _is_newer(one: dict[str, Any], mine: dict[str, Any] | None, name: str) -> bool:
    """Whether a measurement is missing, or here as a copy of another one."""
    if mine is None:
        return True
    same = ("final_accuracy", "best_accuracy", "test_loss", "environment")
    theirs, ours = ({key: _plain(each.get(key)) for key in same} for each in (one, mine))
    return mine.get("recipe") != name and theirs != ours


def _plain(value: Any) -> Any:
    """Without the command, which names the table."""
    return {name: each for name, each in value.items() if name != "command"} if isinstance(value, dict) else value


if __name__ == "__main__":
    sys.exit(main())
