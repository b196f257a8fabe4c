"""The same things again and again: ``soak.py --minutes 15``. Faults at random, and a process that must not grow.

In turn: in this process a training, an evaluation, a report, an export and a load; in forked children a fault of any
kind (``faults.py``). Memory and open files are measured after each round; after the first rounds neither may grow.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from lab import Lab
from tiny import tiny

import hypersphere as hs
from faults import KINDS, problems, table
from hypersphere.cli import main as command
from hypersphere.train import run

WARM_UP, GROWTH = 5, 0.5  # rounds that fill caches; MiB a round that no leak stays below


def one_round(root: Path) -> None:
    """Everything that is done with a run, in this process."""
    run(tiny(root, "soaked", 4))
    path = root / "soaked"
    with contextlib.redirect_stdout(io.StringIO()):
        codes = [
            command(["evaluate", str(path), "--parts", "classification"]),
            command(["report", str(path)]),
            command(["export", str(path), "--formats", "safetensors", "--samples", "4"]),
        ]
    assert codes == [0, 0, 0], codes
    hs.load(path / "seed-0" / "export")
    shutil.rmtree(path)


def resident() -> float:
    """MiB of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=15.0)
    options = parser.parse_args()
    root, end = Path(tempfile.mkdtemp(prefix="soak-")), time.monotonic() + 60 * options.minutes
    memory: list[float] = []
    files: list[int] = []
    found: dict[str, Counter[str]] = {}
    try:
        lab = Lab(root)
        lab.chance.seed(time.time_ns())
        while time.monotonic() < end or len(memory) < WARM_UP + 2:
            one_round(root)
            memory.append(resident())
            files.append(open_files())
            kind = lab.chance.choice(list(KINDS.values()))
            found.setdefault(str(kind.__doc__), Counter())[kind(lab, "faulty")] += 1
            lab.remove("faulty")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    slope = statistics.linear_regression(range(len(memory) - WARM_UP), memory[WARM_UP:]).slope
    print(table(found))
    print(
        f"{len(memory)} rounds: {memory[WARM_UP]:.0f} MiB after {WARM_UP}, {memory[-1]:.0f} at the end ({slope:+.3f} a "
        f"round); open files {files[WARM_UP]} and {files[-1]}"
    )
    return bool(problems(found)) or slope > GROWTH or files[-1] > files[WARM_UP]


if __name__ == "__main__":
    sys.exit(main())
