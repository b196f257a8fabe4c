"""``hypersphere sweep RECIPE --loss.margin 0.2,0.3,0.4``: every combination of some settings as a separate run."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from .._core import torchrun
from .._core.checks import check_count
from .._core.cores import cores
from .._core.streams import aligned
from .._core.trust import addresses, named, trust
from ..config import check_used, to_dict
from ..plots.sweep import sweep as draw
from ..runs.files import check_room, write_json
from ..runs.lock import locked
from ..train import Job, Stopped, room, run_at_once
from ..train import run as train
from ..train.at_once import many_queues
from ..train.launch import signals
from . import _sweep_file as file
from ._sweep_file import in_a_sweep
from ._sweep_plan import Combination, Plan, make_plan, value_text
from .settings import check_code


def run(options: argparse.Namespace) -> int:
    """Run ``hypersphere sweep`` and return its exit status."""
    jobs: Any = int(options.jobs) if options.jobs.isdecimal() else options.jobs
    jobs = None if jobs == "auto" else check_count("--jobs", jobs)
    trust(options.trust)
    texts = {name: value for name, value in vars(options).items() if "." in name}
    ask = partial(make_plan, options.recipe, options.config, texts, options.name)
    plan = ask()
    if (stored := file.read(plan.folder)) is not None:
        plan = ask(order=stored.varied)
    found = list(plan.combinations())
    if all(one.error for one in found):
        raise ValueError(str(found[0].error))
    first, *others = (one.config for one in found if one.error is None)
    check_used(first, texts, *others)
    if stored is not None:
        stored.check(plan)
    _say_errors(found)  # before hours of training
    if options.show:
        for one in found:
            print(one.name)
        return 0
    for config in (first, *others):
        check_code(config)
    check_room(plan.folder, 2**16)  # before hours of training: the table is written there at the end
    # of several processes that train one run together, the first speaks for all
    own = locked(plan.folder, str(plan.folder), option="--name") if torchrun.rank() == 0 else nullcontext(-1)
    with own as lock:
        return _sweep(plan, found, jobs, lock)


def _sweep(plan: Plan, found: list[Combination], jobs: int | None, lock: int) -> int:
    """Train what is missing and write the table; call it with the lock of the folder."""
    stored = file.read(plan.folder)  # again: another sweep may have ended in between
    if stored is not None:
        stored.check(plan)
    for one in found:
        if one.error is None:
            file.check_run(one)
    kept = [] if stored is None else stored.others(plan, found)
    if torchrun.rank() == 0:
        file.write(plan, kept + found)  # now, so that a sweep is known by it that is killed
    print(f"{len(found)} runs in {plan.folder}", flush=True)
    many_queues()  # before the memory of the GPU is asked for
    place = (plan.folder, lock)
    valid = [one for one in found if one.error is None]
    stopped = _as_many_as_fit(valid, *place) if jobs is None else _together(valid, *place, jobs)
    if stopped:
        return stopped
    if torchrun.rank() == 0:
        file.write(plan, kept + found)
        _show(plan, kept + found)
    return 1 if any(one.error for one in found) else 0


def _as_many_as_fit(found: list[Combination], folder: Path, lock: int) -> int:
    """Train the first unfinished run alone to measure its memory, then as many at a time as fit."""
    todo = [one for one in found if one.missing()]
    if not todo:
        return _one_by_one(found)
    device = todo[0].config.run.device
    if room.room(device).device_memory is not None:
        return _on_gpu(found, todo, device)
    if len(todo) < 3:
        return _one_by_one(found)
    with room.measured(device) as peak:
        stopped = _one_by_one(todo[:1])
    if stopped:
        return stopped
    jobs = room.room(device).fits(peak, len(todo) - 1)
    print(f"one run took {peak.memory / 2**30:.2f} GiB; the others run {jobs} at a time", flush=True)
    return _together([one for one in found if one is not todo[0]], folder, lock, jobs)


def _on_gpu(found: list[Combination], todo: list[Combination], device: str) -> int:
    """The seeds of all runs in this process: processes would take turns on a GPU, while streams share it."""
    owners = {Job(one.config, seed): one for one in todo for seed in one.missing()}
    first, *others = owners
    with room.measured(device) as peak:
        outcomes = run_at_once([first], 1)
    if others and not any(one.stopped for one in outcomes):
        jobs = room.room(device).fits(peak, len(others))
        print(
            f"one run took {peak.device_memory / 2**30:.2f} GiB of the GPU; the others run {jobs} at a time", flush=True
        )
        outcomes += run_at_once(others, jobs)
    for outcome in outcomes:
        if outcome.error is not None:
            owners[outcome.job].error = in_a_sweep(str(outcome.error))
    _say_errors(found)
    return 130 if any(one.stopped for one in outcomes) else 0


def _together(found: list[Combination], folder: Path, lock: int, jobs: int) -> int:
    if jobs == 1:
        return _one_by_one(found)
    finished = [one for one in found if not one.missing()]  # which need no process
    return _one_by_one(finished) or _in_processes([one for one in found if one not in finished], folder, lock, jobs)


def _one_by_one(found: list[Combination]) -> int:
    asked = threading.Event()
    with signals(asked.set, alone=False):
        for number, one in enumerate(found, start=1):
            if asked.is_set():  # a signal in the last evaluation of the run before, which was finished
                return _say_stopped()
            print(f"[{number}/{len(found)}] {one.name}", flush=True)
            try:
                train(one.config)
            except Stopped as stopped:
                if stopped.code == 130:
                    print(f"hypersphere sweep: {stopped}", file=sys.stderr)
                    return 130
                one.error = in_a_sweep(str(stopped))
            except Exception as error:  # e.g. out of memory, a missing data set: the other runs may succeed
                one.error = in_a_sweep(f"{type(error).__name__}: {error}")
            if one.error:
                print(f"hypersphere sweep: {one.name}: {one.error}", file=sys.stderr)
    return 0


def _say_stopped() -> int:
    print("hypersphere sweep: stopped. Give the same command again to continue", file=sys.stderr)
    return 130


def _in_processes(found: list[Combination], folder: Path, lock: int, jobs: int) -> int:
    """Train several at a time, each in a process; its output is in FOLDER/settings/NAME.txt.

    They inherit the lock of the folder: if this process is killed, they go on, and no other sweep may disturb them.
    """
    files = folder / "settings"
    files.mkdir(parents=True, exist_ok=True)
    threads = str(max(1, cores() // jobs))  # together they use all cores
    environment = {"OMP_NUM_THREADS": threads, **os.environ}
    inherited = (lock,) if os.name == "posix" else ()
    children: list[subprocess.Popen[bytes]] = []
    stopping = threading.Event()

    def stop() -> None:  # a termination signal comes to this process alone
        stopping.set()
        for child in children:
            child.terminate()

    def work(one: Combination) -> None:
        if stopping.is_set():
            return
        file, words = files / f"{one.name}.json", files / f"{one.name}.txt"
        settings = to_dict(one.config)
        write_json(file, settings)
        command = [sys.executable, "-m", "hypersphere", "train", "--config", str(file), "--run.progress", "plain"]
        named(settings)  # this command line named or trusts this code, so the other process may, too
        modules = sorted({address.partition(":")[0] for _, address in addresses(settings)})
        command += ["--trust", ",".join(modules)] if modules else []
        with (
            open(words, "w") as out,
            subprocess.Popen(
                command, stdout=out, stderr=subprocess.STDOUT, env=environment, pass_fds=inherited
            ) as child,
        ):
            children.append(child)
            if stopping.is_set():
                child.terminate()
            code = child.wait()
        lines = words.read_text(errors="replace").strip().splitlines()
        told = in_a_sweep(lines[-1]) if lines else ""
        if code and stopping.is_set():
            print(f"{one.name}: {told or 'stopped before its training began'}", flush=True)
            return
        one.error = f"exit status {code}: {told} (see {words})" if code else None
        print(f"{one.name}: {one.error or 'done'}", flush=True)

    with signals(stop), ThreadPoolExecutor(jobs) as pool:
        working = [pool.submit(work, one) for one in found]
        while wait(working, timeout=0.2).not_done:
            pass  # awake now and then: a signal that came to another thread is handled in this one
        for one in working:
            one.result()
    if stopping.is_set():
        return _say_stopped()
    _say_errors(found)
    return 0


def _say_errors(found: list[Combination]) -> None:
    for one in found:
        if one.error:
            print(f"hypersphere sweep: {one.name}: {one.error}", file=sys.stderr)


def _show(plan: Plan, found: list[Combination]) -> None:
    """The table on the screen, and a picture of it if matplotlib is installed."""
    rows, folder = [(one, one.results()) for one in found], plan.folder
    table = [[*plan.varied, "final, %", "best, %", "seeds", ""]]
    for one, results in rows:
        finals, bests = ([result[key] for result in results] for key in ("final_accuracy", "best_accuracy"))
        state = "failed" if one.error else ""
        table.append(
            [
                *(value_text(value) for value in one.varied.values()),
                _mean(finals),
                _mean(bests),
                str(len(results)),
                state,
            ]
        )
    print("\n".join(aligned(table, left=0)))
    print(f"in {folder}; `hypersphere report {folder}` compares them")
    scores = [(one.varied, [result["final_accuracy"] for result in results]) for one, results in rows]
    if any(len(values) for _, values in scores):
        try:
            draw(scores, label="final accuracy, %").savefig(folder / "sweep.png", dpi=150)
        except ImportError as error:
            print(f"no picture: {error}")


def _mean(values: list[float]) -> str:
    if not values:
        return "-"
    spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.2f}{spread}"
