"""How many trainings fit on a machine at once: the free memory divided by the peak memory of the first training.

count = min(free memory / peak of one training, cores or streams, waiting trainings)
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from .._core.cores import cores, words_of
from .distributed import team

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_SPARE = 0.9  # the share of free memory to use: caches and plots need some for a time
_STREAMS = 16  # on a GPU; small networks gain little beyond 8 at a time


@dataclass(frozen=True)
class Room:
    """The resources that are free now.

    Attributes:
        cores: Cores that this process may use.
        memory: Free bytes of the host; None if the system does not say.
        device_memory: Free bytes of the GPU; None for training on a CPU.
    """

    cores: int
    memory: int | None
    device_memory: int | None = None

    def fits(self, one: Peak, waiting: int) -> int:
        """How many of the waiting trainings to run at a time, at least one.

        Args:
            one: The peak memory of one training.
            waiting: The number of waiting trainings.

        Example:
            >>> Room(cores=8, memory=10 * 2**30).fits(Peak(memory=3 * 2**30), waiting=20)
            3
        """
        most = min(waiting, self.cores if self.device_memory is None else _STREAMS)
        for free, taken in ((self.memory, one.memory), (self.device_memory, one.device_memory)):
            if free is not None and taken > 0:
                most = min(most, int(_SPARE * free // taken))
        return max(1, most)


@dataclass
class Peak:
    """The peak memory of one training in bytes: on the host as a separate process, on a GPU inside this process."""

    memory: int = 0
    device_memory: int = 0


def room(device: str) -> Room:
    """The free resources of the machine and of the device that ``--run.device`` names."""
    place = team(device).device
    if place.type != "cuda":
        return Room(cores(), _free_memory())
    gc.collect()  # a training that has ended keeps its graph in cycles
    torch.cuda.empty_cache()
    return Room(cores(), _free_memory(), torch.cuda.mem_get_info(place)[0])


@contextmanager
def measured(device: str) -> Iterator[Peak]:
    """Measure the training inside the ``with`` block; the peak is filled in at its end."""
    place, peak = team(device).device, Peak()
    before = _used_memory()
    if place.type == "cuda":
        torch.cuda.reset_peak_memory_stats(place)
    yield peak
    if place.type == "cuda":
        peak.device_memory = torch.cuda.max_memory_reserved(place)
        peak.memory = max(0, _used_memory() - before)  # the next trainings share this process
    else:
        peak.memory = _used_memory()


def _used_memory() -> int:
    """The peak memory of this process so far; 0 if the system does not say."""
    if resource is None:
        return 0
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024


def _free_memory() -> int | None:
    """The memory available without swapping, limited by the container's limit if there is one; None if unknown."""
    table = words_of(Path("/proc/meminfo"))
    if "MemAvailable:" in table:
        free = int(table[table.index("MemAvailable:") + 1]) * 1024
    elif hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    else:
        return None
    group = Path("/sys/fs/cgroup")
    limit, used = (words_of(group / name) for name in ("memory.max", "memory.current"))
    if limit and used and limit[0].isdigit():
        statistics = words_of(group / "memory.stat")
        cache = int(statistics[statistics.index("inactive_file") + 1]) if "inactive_file" in statistics else 0
        free = min(free, max(0, int(limit[0]) - int(used[0]) + cache))
    return free
