"""How many cores there are for this process."""

from __future__ import annotations

import os
from pathlib import Path


def cores() -> int:
    """The number of cores that this process may use, limited by the container's share if there is one."""
    every = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = words_of(Path("/sys/fs/cgroup/cpu.max"))
    if len(share) == 2 and all(word.isdigit() for word in share) and int(share[1]) > 0:
        every = min(every, max(1, int(share[0]) // int(share[1])))
    return every


def words_of(file: Path) -> list[str]:
    """What a file of the system says; nothing where there is none."""
    try:
        return file.read_text().split()
    except OSError:
        return []
