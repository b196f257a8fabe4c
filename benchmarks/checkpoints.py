"""What a checkpoint costs: its hashes beside the writing and reading of its files.

Whole cycles of ``SeedFolder.save`` and ``load``, with weights and two states of them, beside the same with a hash that
costs nothing. Times are CPU times of the process: waiting for the disk comes on top, and makes the share of the hashes
smaller.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from harness import arguments, write
from hypersphere.runs import SeedFolder, files, seed_folder

SIZES = {"3 million parameters": 3_000_000, "25 million parameters": 25_000_000}
HASHES: dict[str, Callable[[bytes], str]] = {"": files.digest, ", no hash": lambda content: "none"}


def measure(numbers: int, rounds: int) -> dict[str, float]:
    """Median milliseconds of saving, loading and hashing a checkpoint of so many parameters."""
    weights = {"weight": torch.randn(numbers)}
    state = {"first": torch.randn(numbers), "second": torch.randn(numbers)}
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(dir=".") as root:
        folder, step = SeedFolder(Path(root), 0), 0
        folder.prepare()
        for _ in range(rounds):
            for name, digest in HASHES.items():
                step += 1
                files.digest = seed_folder.digest = digest  # type: ignore[assignment]
                times.setdefault(f"save{name}", []).append(timed(folder.save, step, weights, state, 1))
                times.setdefault(f"load{name}", []).append(timed(folder.load, folder.checkpoint(step)))
        content = (folder.checkpoint(step) / "model.safetensors").read_bytes()
        times["hash of a third"] = [timed(HASHES[""], content) for _ in range(rounds)]
    found = {f"{name}, ms": round(1e3 * statistics.median(values), 1) for name, values in times.items()}
    return {"MiB": round(12 * numbers / 2**20, 1), **found}


def timed(work: Callable[..., Any], *values: Any) -> float:
    begin = time.process_time()
    work(*values)
    return time.process_time() - begin


if __name__ == "__main__":
    options = arguments(__doc__, rounds=7)
    found = {name: measure(count, options.rounds) for name, count in SIZES.items()}
    for name, numbers in found.items():
        print(name, numbers)
    write(options.name or "checkpoints", {"checkpoints": found})
