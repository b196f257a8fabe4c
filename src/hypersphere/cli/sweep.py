"""``hypersphere sweep RECIPE --loss.margin 0.2,0.3,0.4``: every combination of some settings as a separate run."""

from __future__ import annotations

import argparse
import itertools
import os
import re
import statistics
import subprocess
import sys
import threading
import typing
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._core.checks import check_count, check_folder_name
from .._core.cores import cores
from .._core.streams import aligned
from .._core.trust import addresses, named, trust
from ..config import Config, check_used, read_text, settings, to_dict, with_values
from ..plots.sweep import sweep as draw
from ..runs import Run, run_path
from ..runs.files import write_json
from ..train import Job, Stopped, room, run_at_once
from ..train import run as train
from ..train.at_once import many_queues
from ..train.launch import signals
from .settings import check_code, chosen_config, freed

_BRIEF = ("seed", "final_accuracy", "best_accuracy", "best_step")


@dataclass
class Combination:
    """One run of a sweep: what was varied, its settings, and its error if it failed."""

    varied: dict[str, Any]
    config: Config
    error: str | None = None

    @property
    def name(self) -> str:
        return str(self.config.run.name)

    def results(self) -> list[dict[str, Any]]:
        """The results of the seeds that are done."""
        if not (run_path(self.config) / "config.json").exists():
            return []
        try:
            found = Run(run_path(self.config))
        except ValueError:  # the run has no folder yet
            return []
        wanted = [seed for seed in found.seeds if seed in self.config.run.seeds]
        return [result for seed in wanted if (result := found.result(seed)) is not None]

    def missing(self) -> list[int]:
        """The seeds that are not done."""
        done = {result["seed"] for result in self.results()}
        return [seed for seed in self.config.run.seeds if seed not in done]


def run(options: argparse.Namespace) -> int:
    """Run ``hypersphere sweep`` and return its exit status."""
    jobs: Any = int(options.jobs) if options.jobs.isdecimal() else options.jobs
    jobs = None if jobs == "auto" else check_count("--jobs", jobs)
    trust(options.trust)
    texts = {name: value for name, value in vars(options).items() if "." in name}
    found = list(combinations(options.recipe, options.config, texts, options.name))
    if all(one.error for one in found):
        raise ValueError(str(found[0].error))
    first, *others = (one.config for one in found if one.error is None)
    check_used(first, texts, *others)
    folder = run_path(found[0].config).parent
    if options.show:
        for one in found:
            print(one.name)
        return 0
    for config in (first, *others):
        check_code(config)
    print(f"{len(found)} runs in {folder}", flush=True)
    many_queues()  # before the memory of the GPU is asked for
    stopped = _as_many_as_fit(found, folder) if jobs is None else _together(found, folder, jobs)
    if stopped:
        return stopped
    _write(found, folder)
    return 1 if any(one.error for one in found) else 0


def combinations(
    recipe: str | None, file: str | None, texts: Mapping[str, str], name: str | None = None
) -> Iterator[Combination]:
    """Every combination of the values given for some options; the last option varies fastest.

    Raises:
        ValueError: If a text is not a valid value of its option. Settings that do not fit together raise nothing: the
            message becomes the ``error`` of their combination.
    """
    hints = settings()
    values = {option: _values(option, text, hints[option]) for option, text in texts.items()}
    if "run.name" in values:
        raise ValueError("--run.name names a single run: use --name to name the sweep")
    varied = [option for option, every in values.items() if len(every) > 1]
    fixed = {option: every[0] for option, every in values.items() if option not in varied}
    try:
        base = chosen_config(recipe, file, fixed)
    except ValueError:  # they may fit together with what is varied, e.g. a margin with the heads that are named
        if not varied:
            raise
        base = chosen_config(recipe, file, {name: value for name, value in fixed.items() if name.startswith("run.")})
    folder = str(Path(base.run.folder) / check_folder_name("--name", name or f"{base.recipe}-sweep"))
    for chosen in itertools.product(*(values[option] for option in varied)):
        changes = dict(zip(varied, chosen, strict=True))
        place = {"run.folder": folder, "run.name": _run_name(changes)}
        try:
            yield Combination(changes, with_values(base, {**freed(fixed | changes, base), **place}))
        except (ValueError, TypeError) as error:  # e.g. a margin without a head; other combinations may be valid
            yield Combination(changes, with_values(base, place), error=str(error))


def _values(option: str, text: str, hint: Any) -> list[Any]:
    """Split the text of an option into values, as the end of ``--help`` explains."""
    kinds = typing.get_args(hint) or (hint,)
    listed = any((typing.get_origin(kind) or kind) in (tuple, dict) for kind in (hint, *kinds))
    parts = [part for part in text.split("|") if part.strip()] if "|" in text else [text] if listed else text.split(",")
    try:
        found = [read_text(hint, part.strip()) for part in parts]
    except ValueError:
        raise ValueError(
            f"--{option} {text!r} has a value that the option does not accept: see --help {option}"
        ) from None
    if not found or len({str(value) for value in found}) != len(found):
        hint = f". If its commas belong to one value, write '{text}|'" if "," in text and "|" not in text else ""
        raise ValueError(f"--{option} {text!r} must have at least one value, and no value twice{hint}")
    return found


def _run_name(changes: Mapping[str, Any]) -> str:
    """A folder name such as ``loss.margin=0.2,optim.lr=0.1``, shortened and cleaned where file systems need it."""
    plain = ",".join(f"{option}={_text(value)}" for option, value in changes.items()) or "run"
    name = re.sub(r"[^\w.=,+-]", "_", plain)
    if name == plain and len(name) <= 120:
        return name
    return f"{name[:100]}-{zlib.crc32(plain.encode()):08x}"


def _text(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _as_many_as_fit(found: list[Combination], folder: Path) -> int:
    """Train the first unfinished run alone to measure its memory, then as many at a time as fit."""
    todo = [one for one in found if one.error is None and one.missing()]
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
    return _together([one for one in found if one is not todo[0]], folder, jobs)


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
            owners[outcome.job].error = str(outcome.error)
    _say_errors(found)
    return 130 if any(one.stopped for one in outcomes) else 0


def _together(found: list[Combination], folder: Path, jobs: int) -> int:
    if jobs == 1:
        return _one_by_one(found)
    finished = [one for one in found if one.error is None and not one.missing()]  # which need no process
    return _one_by_one(finished) or _in_processes([one for one in found if one not in finished], folder, jobs)


def _one_by_one(found: list[Combination]) -> int:
    for number, one in enumerate(found, start=1):
        print(f"[{number}/{len(found)}] {one.name}", flush=True)
        try:
            if one.error is None:
                train(one.config)
        except Stopped as stopped:
            if stopped.code == 130:
                print(f"hypersphere sweep: {stopped}", file=sys.stderr)
                return 130
            one.error = str(stopped)
        except Exception as error:  # e.g. out of memory, a missing data set: the other runs may succeed
            one.error = f"{type(error).__name__}: {error}"
        if one.error:
            print(f"hypersphere sweep: {one.name}: {one.error}", file=sys.stderr)
    return 0


def _in_processes(found: list[Combination], folder: Path, jobs: int) -> int:
    """Train several at a time, each in a process; its output is in FOLDER/settings/NAME.txt."""
    files = folder / "settings"
    files.mkdir(parents=True, exist_ok=True)
    threads = str(max(1, cores() // jobs))  # together they use all cores
    environment = {"OMP_NUM_THREADS": threads, **os.environ}
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
            subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment) as child,
        ):
            children.append(child)
            if stopping.is_set():
                child.terminate()
            code = child.wait()
        lines = words.read_text(errors="replace").strip().splitlines()
        one.error = f"exit status {code}: {lines[-1] if lines else ''} (see {words})" if code else None
        print(f"{one.name}: {one.error or 'done'}", flush=True)

    with signals(stop), ThreadPoolExecutor(jobs) as pool:
        working = [pool.submit(work, one) for one in found if one.error is None]
        while wait(working, timeout=0.2).not_done:
            pass  # awake now and then: a signal that came to another thread is handled in this one
        for one in working:
            one.result()
    if stopping.is_set():
        print("hypersphere sweep: stopped. Give the same command again to continue", file=sys.stderr)
        return 130
    _say_errors(found)
    return 0


def _say_errors(found: list[Combination]) -> None:
    for one in found:
        if one.error:
            print(f"hypersphere sweep: {one.name}: {one.error}", file=sys.stderr)


def _write(found: list[Combination], folder: Path) -> None:
    """The table on the screen and in sweep.json, and a picture of it if matplotlib is installed."""
    rows = [(one, one.results()) for one in found]
    content = []
    for one, results in rows:
        brief = [{name: result.get(name) for name in _BRIEF} for result in results]
        content.append({"run": one.name, "varied": one.varied, "error": one.error, "seeds": brief})
    write_json(folder / "sweep.json", content)
    names = list(found[0].varied)
    table = [[*names, "final, %", "best, %", "seeds", ""]]
    for one, results in rows:
        finals, bests = ([result[key] for result in results] for key in ("final_accuracy", "best_accuracy"))
        state = "failed" if one.error else ""
        table.append(
            [*(_text(value) for value in one.varied.values()), _mean(finals), _mean(bests), str(len(results)), state]
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
