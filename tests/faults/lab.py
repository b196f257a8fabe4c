"""Trainings with faults: what a child process does, what is done to it or to its files, and how it ended.

Processes are forked, so that torch is imported once. Every file operation of Python raises an audit event before it is
done: there a child is killed, or the operation fails. Nothing of the package is replaced for it.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from tiny import everything

import hypersphere as hs
from hypersphere.runs import Run
from hypersphere.train import Stopped, run, with_values

STEPS = 12  # a multiple of 6
SAME, REFUSED = "same", "refused"
ERRORS = {"disk full": errno.ENOSPC, "input/output error": errno.EIO, "permission": errno.EACCES}
_WRITING = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.utime"}

Audit = Callable[[str, tuple[object, ...]], None]


@dataclass
class End:
    """How a child process ended: its status (negative: the signal that killed it), its error, what it showed."""

    status: int
    said: str
    shown: str = ""
    operations: int = 0

    @property
    def word(self) -> str:
        """``same`` for a whole end, ``refused`` for one line that names a file, else what went wrong."""
        if self.status == 0:
            return SAME
        if self.status == 2 and self.said.count("\n") == 1 and "/" in self.said:
            return REFUSED
        return f"status {self.status}: {self.said.strip()[-300:]}"


@dataclass
class Lab:
    """A folder with a training that was left alone, one that was killed half-way, and those with faults."""

    root: Path
    steps: int = STEPS
    chance: random.Random = field(default_factory=lambda: random.Random(0))

    def __post_init__(self) -> None:
        torch.set_num_threads(1)
        self.work("reference", "off")  # in this process: its children find everything imported
        self.expected = outcome(self.root / "reference")
        begin = time.perf_counter()
        self.operations = self.train("counted").operations
        self.seconds = time.perf_counter() - begin
        self.train("stopped", after_checkpoint(2 * self.steps // 3, kill))
        self.remove("counted")

    # What a child does ------------------------------------------------------------------------------

    def work(self, name: str, progress: str = "plain", seed: int = 0) -> None:
        """Train, or go on with it: in any number of steps as many logs, checkpoints, redraws and projections."""
        settings = {"run.name": name, "run.progress": progress, "run.seeds": (seed,)}
        settings |= {"run.log_every": self.steps // 6, "run.checkpoint_every": self.steps // 3}
        settings |= {"run.eval_every": 2 * self.steps // 3, "regularizer.refresh": 5 * self.steps // 12}
        settings |= {"optim.projection_every": 5 * self.steps // 12}
        run(with_values(everything(self.root, "lab", self.steps), settings))

    def train(self, name: str, audit: Audit | None = None) -> End:
        return self.finish(self.start(name, audit))

    def read(self, name: str) -> End:
        """Look at a run as anybody would: its network, which must be the reference's, its log, its result."""

        def work() -> None:
            path = self.root / name
            found, genuine = hs.load(path).state_dict(), hs.load(self.root / "reference").state_dict()
            seen = Run(path)
            result = seen.result()
            _ = seen.log(), seen.environment(), seen.facts()
            same = all(torch.equal(value, genuine[key]) for key, value in found.items())
            if not same or (result is not None and result != Run(self.root / "reference").result()):
                raise AssertionError("other weights or another result, without a word")

        return self.finish(self._fork(work, None))

    def start(self, name: str, audit: Audit | None = None, seed: int = 0) -> tuple[int, Path]:
        """A training in a child; :meth:`finish` waits for it."""
        return self._fork(lambda: self.work(name, seed=seed), audit)

    def finish(self, started: tuple[int, Path], kill_after: float | None = None, number: int = signal.SIGKILL) -> End:
        """How a child ended, which gets a signal after so many seconds."""
        child, said = started
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(child, number)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for path in (said, said.with_suffix(".out"), said.with_suffix(".count")):
            texts.append(path.read_text() if path.exists() else "")
            path.unlink(missing_ok=True)
        return End(status, texts[0], texts[1], int(texts[2] or 0))

    def _fork(self, work: Callable[[], object], audit: Audit | None) -> tuple[int, Path]:
        said = self.root / f"said-{time.monotonic_ns()}.txt"
        child = os.fork()
        if child == 0:
            _child(work, audit, said, self.root)
        return child, said

    # How it must end --------------------------------------------------------------------------------

    def judge(self, name: str, end: End, log_damaged: bool = False) -> str:
        """The word for a training that should have come to the reference's end; of damage to the log it must tell."""
        if end.word != SAME:
            return end.word
        weights, log = outcome(self.root / name)
        if weights != self.expected[0]:
            return "other weights"
        if log != self.expected[1] and not (log_damaged and "log.jsonl" in end.shown):
            return "another log, without a word" if log_damaged else "another log"
        left = leftovers(self.root / name)
        return f"left behind: {left}" if left else SAME

    def copy(self, name: str, source: str) -> Path:
        return Path(shutil.copytree(self.root / source, self.root / name))

    def remove(self, name: str) -> None:
        shutil.rmtree(self.root / name, ignore_errors=True)


def outcome(path: Path) -> tuple[bytes, list[object]]:
    """The final weights bit by bit, and the log without timings."""
    lines = [json.loads(line) for line in (path / "seed-0" / "log.jsonl").read_text().splitlines()]
    for line in lines:
        line.pop("rate", None)
    return (path / "seed-0" / "model.safetensors").read_bytes(), lines


def leftovers(path: Path) -> list[str]:
    """What only processes that are gone can have left."""
    marks = (".tmp", ".room", ".lock", ".lost", "tmp-")
    found = [str(file.relative_to(path)) for file in path.rglob("*") if any(mark in file.name for mark in marks)]
    checkpoints = sorted((path / "seed-0" / "checkpoints").glob("step-*"))
    found += [one.name for one in checkpoints[:-2]]
    if checkpoints and (path / "seed-0" / "latest").read_text() != checkpoints[-1].name:
        found.append("stale latest")
    return found


# Faults ---------------------------------------------------------------------------------------------


def at_operation(number: int, act: Callable[[], None]) -> Audit:
    """Act at the n-th operation that changes a file."""
    count = 0

    def audit(event: str, values: tuple[object, ...]) -> None:
        nonlocal count
        count += 1
        if count == number:
            act()

    return audit


def after_checkpoint(step: int, act: Callable[[], None]) -> Audit:
    """Act when the log is written for the first time after a checkpoint."""
    there = False

    def audit(event: str, values: tuple[object, ...]) -> None:
        nonlocal there
        if event == "os.rename" and str(values[1]).endswith(f"step-{step:08d}"):
            there = True
        elif there and event == "open" and str(values[0]).endswith("log.jsonl"):
            act()

    return audit


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail(number: int) -> Callable[[], None]:
    """Let the operation fail with this number of an error."""

    def act() -> None:
        raise OSError(number, os.strerror(number))

    return act


class Power:
    """A disk that keeps what was synchronised alone, up to a power cut at the n-th operation that changes a file.

    As file systems with delayed allocation do: a file has the length of its last ``fsync``, and a rename is undone if
    the folder was not synchronised since. In a child it stands behind ``os.fsync``.
    """

    def __init__(self, root: Path, number: int) -> None:
        self.root, self.left = root, number
        self.genuine: Callable[[int], None] | None = None
        self.lengths: dict[int, int] = {}
        self.renames: list[tuple[Path, Path]] = []

    def __call__(self, event: str, values: tuple[object, ...]) -> None:
        if self.genuine is None:
            self.genuine, os.fsync = os.fsync, self.fsync
        self.left -= 1
        if self.left == 0:
            self.cut()
        elif event == "os.rename":
            self.renames.append((Path(str(values[0])), Path(str(values[1]))))

    def fsync(self, handle: int) -> None:
        assert self.genuine is not None
        self.genuine(handle)
        about = os.fstat(handle)
        self.lengths[about.st_ino] = about.st_size
        folder = Path(os.readlink(f"/proc/self/fd/{handle}"))
        self.renames = [pair for pair in self.renames if pair[1].parent != folder]

    def cut(self) -> None:
        for old, new in reversed(self.renames):
            if new.exists() and not old.exists():
                os.rename(new, old)
        for path in self.root.rglob("*"):
            if path.is_file() and path.name != ".lock":
                about = path.stat()
                os.truncate(path, min(about.st_size, self.lengths.get(about.st_ino, 0)))
        kill()


def flip(path: Path, chance: random.Random) -> None:
    """Turn one bit."""
    content = bytearray(path.read_bytes())
    if content:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(bytes(content))


def truncate(path: Path, chance: random.Random) -> None:
    """Cut it anywhere."""
    os.truncate(path, chance.randrange(max(path.stat().st_size, 1)))


def _child(work: Callable[[], object], audit: Audit | None, said: Path, root: Path) -> None:
    """As the command line does: errors that users can mend are one line."""
    status, text, operations, done = 1, "", 0, False
    sys.stdout = open(said.with_suffix(".out"), "w")  # noqa: SIM115

    def hook(event: str, values: tuple[object, ...]) -> None:
        nonlocal operations
        if done or not _writes(event, values) or str(root) not in str(values[0]) or said.stem in str(values[0]):
            return
        operations += 1
        if audit is not None:
            audit(event, values)

    sys.addaudithook(hook)
    try:
        work()
        status = 0
    except Stopped as error:
        status, text = error.code, f"{error}\n"
    except (ValueError, TypeError, OSError, ImportError) as error:
        status, text = 2, f"{error}\n"
    except KeyboardInterrupt:
        status, text = 130, "interrupted\n"
    except BaseException:
        text = traceback.format_exc()
    done = True
    sys.stdout.flush()
    said.with_suffix(".count").write_text(str(operations))
    said.write_text(text)
    os._exit(status)


def _writes(event: str, values: tuple[object, ...]) -> bool:
    if event != "open":
        return event in _WRITING
    flags = values[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
