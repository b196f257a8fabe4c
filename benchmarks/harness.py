"""Measuring: interleaved rounds, medians, ratios to a named peer, the A/A spread, JSON with versions and device."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import gc
import json
import math
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import torch

RESULTS = Path(__file__).parent / "results"


def arguments(description: str, rounds: int) -> argparse.Namespace:
    """The command line that every benchmark shares."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds, help="interleaved rounds (default %(default)s)")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default %(default)s)")
    parser.add_argument("--name", default=None, help="write to results/NAME.json instead of the script's name")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return options


@contextlib.contextmanager
def preparing() -> Iterator[None]:
    """Beside others that prepare (compile, fill caches), while nobody measures: see :func:`alone`."""
    with _file("preparing") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        yield


@contextlib.contextmanager
def alone() -> Iterator[bool]:
    """Measure while no other benchmark of this user measures or prepares on the machine.

    The seconds in ``$HYPERSPHERE_PATIENCE``, if set, are the longest time to wait for those that prepare.

    Yields:
        Whether nobody prepares meanwhile.
    """
    end = time.monotonic() + float(os.environ.get("HYPERSPHERE_PATIENCE", "inf"))
    with _file("measuring") as turn, _file("preparing") as others:
        while not (_taken(turn) and _taken(others)):  # all that wait have the same chance: none holds one of the two
            fcntl.flock(turn, fcntl.LOCK_UN)
            if time.monotonic() > end:
                fcntl.flock(turn, fcntl.LOCK_EX)
                yield False
                return
            time.sleep(0.1)
        yield True  # closing the files lets go


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """Nobody else measures for a moment, though others may prepare: for libraries that look for their fastest way."""
    with _file("measuring") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _taken(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _file(name: str) -> IO[str]:
    return (Path(tempfile.gettempdir()) / f"hypersphere_{name}_{os.getuid()}.lock").open("w")


def exponents(sizes: Sequence[float], values: Sequence[float]) -> list[float]:
    """The powers with which ``values`` grow from each size to the next."""
    steps = zip(zip(sizes, values, strict=True), zip(sizes[1:], values[1:], strict=True), strict=False)
    return [round(math.log(w / v) / math.log(b / a), 2) for (a, v), (b, w) in steps]


def interleave(
    variants: dict[str, Callable[[], object]], rounds: int, reference: str, device: str = "cpu", warmup: int = 2
) -> dict[str, Any]:
    """Median time of each variant and of its ratio to ``reference`` round by round.

    Each round runs every variant once, in an order that rotates, and the reference a second time
    (``"A/A"``): the spread of that ratio is the noise that no claim may be smaller than. CPU work is
    measured in process CPU time, GPU work by device events.
    """
    table = {**variants, "A/A": variants[reference]}
    names = list(table)
    for _ in range(warmup):
        for run in table.values():
            run()
    times: dict[str, list[float]] = {name: [] for name in names}
    for index in range(rounds):
        turn = index % len(names)
        for name in names[turn:] + names[:turn]:
            times[name].append(_timed(table[name], device))
    summary: dict[str, Any] = {"reference": reference, "rounds": rounds, "variants": {}}
    for name in names:
        ratios = sorted(t / base for t, base in zip(times[name], times[reference], strict=True))
        summary["variants"][name] = {
            "median_ms": round(1e3 * statistics.median(times[name]), 4),
            "ratio": round(statistics.median(ratios), 4),
            "ratio_quartiles": [round(ratios[len(ratios) // 4], 4), round(ratios[(3 * len(ratios)) // 4], 4)],
        }
    return summary


def _timed(run: Callable[[], object], device: str) -> float:
    if device == "cuda":
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) / 1e3
    gc.disable()
    begin = time.process_time()
    run()
    elapsed = time.process_time() - begin
    gc.enable()
    return elapsed


def peak_extra_memory(prepare: Callable[[], Callable[[], object]]) -> int:
    """Bytes by which resident memory peaks over its level after ``prepare()``, while its result runs.

    In a forked process of its own, so that neither caches nor earlier runs hide anything.
    ``prepare`` must allocate inputs (and warm up what should not count).
    """
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_measure_peak, args=(prepare, send))
    process.start()
    send.close()
    try:
        return int(receive.recv())
    finally:
        process.join()


def _measure_peak(prepare: Callable[[], Callable[[], object]], send: Any) -> None:
    torch.set_num_threads(1)
    run = prepare()
    gc.collect()
    base, peak, done = _resident(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max(peak, _resident())
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    kept = run()
    done.set()
    watcher.join()
    send.send(max(peak, _resident()) - base)
    del kept


def _resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def pin_allocator() -> None:
    """Start the script again with glibc keeping freed memory: page faults otherwise swamp small differences."""
    wanted = {"MALLOC_TRIM_THRESHOLD_": str(1 << 34), "MALLOC_MMAP_MAX_": "0"}
    if all(os.environ.get(key) == value for key, value in wanted.items()):
        return
    os.environ.update(wanted)
    os.execv(sys.executable, [sys.executable, *sys.argv])


def environment(device: str = "cpu") -> dict[str, Any]:
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name() if device == "cuda" else _cpu_name(),
        "threads": torch.get_num_threads(),
    }


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def write(name: str, payload: dict[str, Any], device: str = "cpu") -> Path:
    """Write ``results/<name>.json`` (``<name>_cuda.json`` on a GPU) with the environment beside the numbers."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}{'' if device == 'cpu' else '_' + device}.json"
    path.write_text(json.dumps({"environment": environment(device), **payload}, indent=2) + "\n")
    return path


def show(title: str, summary: dict[str, Any]) -> None:
    print(f"\n{title} (reference: {summary['reference']}, {summary['rounds']} rounds)")
    for name, row in summary["variants"].items():
        low, high = row["ratio_quartiles"]
        print(f"  {name:44s} {row['median_ms']:10.2f} ms   ratio {row['ratio']:.3f}  [{low:.3f}, {high:.3f}]")
