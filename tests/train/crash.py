"""Kill trainings with SIGKILL, at random moments and at every step of writing a file; go on; compare the ends.

Run as a script: ``crash.py FOLDER``. Prints one JSON object. Processes are forked, so that torch is imported once.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
from tiny import everything

from hypersphere.runs import files, seed_folder
from hypersphere.train import run

STEPS = 16


def main(root: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    run(everything(root, "reference", STEPS))
    begin = time.perf_counter()
    forked(root, "measured")
    length = time.perf_counter() - begin
    expected = outcome(root / "reference")
    chance = random.Random(0)
    report: dict[str, Any] = {"kills": 0, "different": []}
    for attempt in range(3):
        name = f"random{attempt}"
        for _ in range(3):
            report["kills"] += not forked(root, name, kill_after=chance.uniform(0.1, 0.7) * length)
        forked(root, name)
        compare(root, name, expected, report)
    # in order: config, environment, facts, then of each checkpoint the model, the state, its skeleton, the pointer
    for moment, how in ((1, "half"), (4, "half"), (5, "before"), (6, "half"), (6, "before"), (7, "half"), (12, "half")):
        name = f"{how}{moment}"
        report["kills"] += not forked(root, name, moment=moment, how=how)
        forked(root, name)
        compare(root, name, expected, report)
    return report


def compare(root: Path, name: str, expected: tuple[bytes, list[Any]], report: dict[str, Any]) -> None:
    if outcome(root / name) != expected:
        report["different"].append(name)
    shutil.rmtree(root / name)


def outcome(path: Path) -> tuple[bytes, list[Any]]:
    """The final weights bit by bit, and the log without timings."""
    lines = [json.loads(line) for line in (path / "seed-0" / "log.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("rate", None)
    return (path / "seed-0" / "model.safetensors").read_bytes(), lines


def forked(root: Path, name: str, kill_after: float | None = None, moment: int = 0, how: str = "") -> bool:
    """Train in a child; whether it came to its end."""
    child = os.fork()
    if child == 0:
        if moment:
            die_at(moment, how)
        run(everything(root, name, STEPS))
        os._exit(0)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0


def die_at(moment: int, how: str) -> None:
    """Let this process be killed at its ``moment``-th file: before it is renamed, or half written."""
    count = 0
    genuine = files.write_bytes

    def write_bytes(path: Path, content: bytes) -> None:
        nonlocal count
        count += 1
        if count != moment:
            genuine(path, content)
            return
        end = len(content) if how == "before" else len(content) // 2
        path.with_name(f"{path.name}.tmp{os.getpid()}").write_bytes(content[:end])
        os.kill(os.getpid(), signal.SIGKILL)

    files.write_bytes = seed_folder.write_bytes = write_bytes


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
