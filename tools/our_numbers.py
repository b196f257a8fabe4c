"""Write our numbers into prose: python tools/our_numbers.py [--check]

In README.md and docs/, ``<!--ours TABLE CELL-->…<!--/-->`` holds the mean of the final number over the seeds of
results/TABLE.json, then the lowest and highest seed. With ``--check`` nothing is written, and the exit status is 1
where a page is out of date.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from hypersphere.recipes import results, tables
from hypersphere.recipes.evidence import results_of
from hypersphere.recipes.published import number_of

ROOT = Path(__file__).resolve().parents[1]
_MARK = re.compile(r"<!--ours (\S+?) (\S+?)-->(.*?)<!--/-->")


def number(table: str, cell: str, root: Path = ROOT) -> str:
    """``mean (lowest to highest)`` of the final numbers of a cell, at the steps of its recipe."""
    found = tables()[table]
    chosen = next((one for one in found.cells if one.name == cell), None)
    if chosen is None:
        raise ValueError(f"{table} has no cell {cell!r}: `hypersphere list recipes '{table}*'` names them")
    measurements = results.read(found, root / "results")
    ours = results.ours(found, chosen, measurements)
    if ours is None:
        raise ValueError(f"{table} {cell}: results/{table}.json has no run of this cell with the recipe's settings")
    if ours["final"] is None:
        raise ValueError(f"{table} {cell}: {ours['diverged']} of its seeds diverged, so there is no mean to write down")
    values = [
        found.ours(value, chosen.measure)
        for m in results_of(chosen, measurements)
        if (value := number_of(m, chosen.measure)) is not None
    ]
    spread = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else " (one seed)"
    return f"{ours['final']:.2f}{spread}"


def filled(text: str) -> str:
    """The text with every marked number as it is now."""
    return _MARK.sub(lambda m: f"<!--ours {m[1]} {m[2]}-->{number(m[1], m[2])}<!--/-->", text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    stale = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text()
        if (now := filled(text)) != text:
            stale.append(page.relative_to(ROOT))
            if not options.check:
                page.write_text(now)
    for page in stale:
        print(f"{page}: {'out of date, run python tools/our_numbers.py' if options.check else 'written'}")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
