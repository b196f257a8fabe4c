"""Put the measurements of several results folders together: python tools/merge_results.py FOLDER... --into results

Machines that share the cells of a table each write their own folder; a measurement of the same training, seed, number
of steps and changed settings replaces an earlier one. A training that stands in several tables then has its numbers in
all of them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from hypersphere.recipes import results, shared, tables


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--into", type=Path, default=Path("results"))
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    for path in sorted(path for folder in options.folders for path in folder.glob("*.json")):
        new, target = json.loads(path.read_text()), options.into / path.name
        old = json.loads(target.read_text())["measurements"] if target.exists() else []
        rows = {results.key(m): m for m in [*old, *new["measurements"]]}
        new["measurements"] = [rows[key] for key in sorted(rows)]
        target.write_text(json.dumps(new, indent=2) + "\n")
        print(f"{target}: {len(rows)} measurements")
    share(options.into)


def share(folder: Path) -> None:
    """Give every table the numbers that another has of the same training."""
    known = shared.known(folder, tables().values())
    seeds = {one["seed"] for measurements in known.values() for one in measurements}
    for table in tables().values():
        has = {results.key(one) for one in results.read(table, folder)}
        for training, cell in {cell.training: cell for cell in table.cells}.items():
            config = cell.config(table.name)
            entry = {"cell": training, "steps": config.schedule.steps}
            lacks = [seed for seed in seeds if results.key({**entry, "seed": seed}) not in has]
            found = shared.same(config, lacks, known)
            shared.adopt(table, training, found, folder, {})
            for seed, one in sorted(found.items()):
                print(f"{table.name}.{training}: seed {seed} as {one['recipe']}")


if __name__ == "__main__":
    main()
