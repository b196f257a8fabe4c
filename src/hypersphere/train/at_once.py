"""Several trainings at once in one process: each has its turn, and none notices the others.

On a GPU every training replays its captured step on its own stream, so that small networks share it. The results
are those of the trainings alone, as far as a training alone repeats its own: see :func:`run_at_once`.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from .._core.checks import check_count, check_positive
from .._core.trust import named
from ..config import Config, to_dict
from ..runs import Team, beside, run_path, write_result
from ..sources import read_once
from .board import Board
from .deadline import Deadline
from .distributed import team
from .launch import begin, events_of, interrupt, seed_turns, signals
from .step import Mark
from .stopped import Stopped
from .surroundings import Surroundings
from .training import Training

_NAP = 1e-4  # seconds to wait where no training can continue: a step takes longer


@dataclass(frozen=True, eq=False)
class Job:
    """One seed of a run, to be trained by :func:`run_at_once`.

    Attributes:
        config: Settings of the run that the job belongs to.
        seed: The number of the seed, one of ``config.run.seeds``.

    Example:
        >>> from hypersphere import recipes
        >>> from hypersphere.train import Job
        >>> Job(recipes.get("digits.cnn"), seed=1).name
        'digits.cnn seed 1'
    """

    config: Config
    seed: int

    @property
    def name(self) -> str:
        """Name of the run and number of the seed, for people."""
        return f"{self.config.run.name or self.config.recipe} seed {self.seed}"

    @cached_property
    def folder(self) -> Path:
        """The folder of the run, by which others find it."""
        return run_path(self.config).resolve()

    @cached_property
    def needs(self) -> set[Path]:
        """The runs that must be done before: whose weights it starts from, or whose gradients attack it."""
        names = (self.config.model.start, self.config.adversarial.source)
        return {path for name in names if name is not None for path in places_of(self.config, name)}


def places_of(config: Config, name: str) -> set[Path]:
    """The folders that another run may have which these settings name: beside this one, or as it is written."""
    return {path.resolve() for path in (Path(config.run.folder).expanduser() / name, beside(config, name))}


def first_ready(waiting: Iterable[Job], busy: Iterable[Job] = ()) -> Job | None:
    """The first of the jobs that starts from none which waits or is ``busy``."""
    jobs = list(waiting)
    missing = {job.folder for job in (*jobs, *busy)}
    return next((job for job in jobs if not job.needs & missing), None)


@dataclass(frozen=True, eq=False)
class Outcome:
    """How a job ended.

    Attributes:
        job: The job that ended in this way.
        result: The content of its ``result.json``; None if it did not finish.
        error: The exception that ended it, or kept its result from the summary of the run; None if there was none.

    Example:
        >>> from hypersphere import recipes
        >>> from hypersphere.train import Job, Outcome
        >>> Outcome(Job(recipes.get("digits.cnn"), seed=0)).result is None
        True
    """

    job: Job
    result: dict[str, Any] | None = None
    error: Exception | None = None

    @property
    def stopped(self) -> bool:
        """Whether the job was stopped, or not begun because of a stop; the same call continues it."""
        if self.error is None:
            return self.result is None
        return isinstance(self.error, Stopped) and self.error.code == 130


def many_queues() -> None:
    """Give CUDA 32 queues instead of 8, unless it has started or ``CUDA_DEVICE_MAX_CONNECTIONS`` says how many.

    A captured step has branches of its own, each of which takes a queue. With 8 of them the steps of two trainings
    already wait for each other, and several at once are no faster than one.
    """
    if not torch.cuda.is_initialized():
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")


def run_at_once(
    jobs: Iterable[Job],
    count: int,
    ended: Callable[[Outcome], None] = lambda outcome: None,
    within: float | None = None,
) -> list[Outcome]:
    """Train all jobs, ``count`` at a time, each as :func:`hypersphere.train.run` would.

    The weights are the same bit for bit: on a CPU always, on a GPU wherever a training alone gives the same weights
    twice (``torch.backends.cudnn.deterministic = True`` rules out gradients of cuDNN that do not).

    A job that fails does not stop the others. Calling it again continues where it was, as with one training. Ctrl-C
    (and a termination signal) saves all that are training; those that have not begun do not begin.

    With ``within`` it ends by itself after so many seconds, and saves what is at work, as for Ctrl-C. Where not all
    that are at work can end in time, those that need the longest rest, so that the others end. Others may begin
    meanwhile: up to twice ``count`` are in memory then. What a training still needs is estimated from its steps;
    evaluations at its end are not.

    On a GPU call it before anything else uses CUDA: the trainings need more queues to the device than CUDA opens by
    itself, and it asks for them by ``CUDA_DEVICE_MAX_CONNECTIONS=32``, which CUDA reads when it starts.

    Args:
        jobs: One for each seed of each run.
        count: How many train at a time, ≥ 1.
        ended: Called with each outcome as soon as its job ends.
        within: Seconds that the trainings may take; None for as long as they need. Saving comes on top, so give a
            little less than there is.

    Returns:
        The outcomes, in the order in which the jobs ended. A job that was stopped has :class:`Stopped` as its error.
        Those that did not begin because all were stopped come last, with neither a result nor an error.

    Raises:
        ValueError: If ``count`` or ``within`` is not a positive number, or several processes share a training.

    Example:
        >>> from hypersphere.train import run_at_once
        >>> run_at_once([], count=2)
        []
    """
    check_count("at_once", count)
    deadline = None if within is None else Deadline(check_positive("within", within), count)
    many_queues()
    return _Schedule(list(jobs), count, ended, deadline).run()


class _Schedule:
    """Who waits, who is at work, who rests, who has ended."""

    def __init__(
        self, jobs: list[Job], count: int, ended: Callable[[Outcome], None], deadline: Deadline | None
    ) -> None:
        self._waiting, self._count, self._ended, self._deadline = jobs, count, ended, deadline
        self._working: list[_Work] = []
        self._resting: set[_Work] = set()  # of those at work
        self._outcomes: list[Outcome] = []
        self._streams: list[torch.cuda.Stream | None] = []
        self._stopping = False
        self._board = Board(len(jobs), jobs[0].config.run.progress if jobs else "off")

    def run(self) -> list[Outcome]:
        try:
            with signals(self._stop), read_once():
                while self._working or self._next() is not None:
                    self._mind_the_time()
                    self._fill()
                    moved = [self._advance(work) for work in self._active()]
                    if not any(moved):
                        time.sleep(_NAP)
            self._give_up()
        except Exception:
            for work in self._working:
                work.save_and_stop()
            raise
        finally:
            self._board.stop()
            for work in self._working:
                work.close()
        return self._outcomes

    def _active(self) -> list[_Work]:
        """Those at work that do not rest."""
        return [work for work in self._working if work not in self._resting]

    def _mind_the_time(self) -> None:
        """Stop when the time is over, and let trainings rest that keep others from ending in time."""
        if self._deadline is None or self._stopping:
            return
        if self._deadline.over:
            self._board.say("the time is over" + (": the trainings at work are saved" if self._working else ""))
            self._stop()
            return
        resting = self._deadline.resting(self._working, lambda: self._has_room and self._first_ready() is not None)
        for work in resting ^ self._resting:
            work.rest(work in resting)
            words = "pauses, so that others end in time" if work in resting else "continues"
            self._board.say(f"{work.job.name} {words} (step {work.done})")
        self._resting = resting

    def _stop(self) -> None:
        self._stopping = True
        for work in self._resting:
            work.rest(False)
        self._resting = set()
        interrupt([work.training for work in self._working if work.training is not None])

    @property
    def _has_room(self) -> bool:
        """Whether another may begin beside those that rest, which keep their memory."""
        return len(self._working) < 2 * self._count

    def _next(self) -> Job | None:
        """The first job that waits for no other; None if there is none, or none shall begin."""
        if self._stopping or (self._resting and not (self._has_room and self._deadline and self._deadline.spare)):
            return None
        return self._first_ready()

    def _first_ready(self) -> Job | None:
        return first_ready(self._waiting, (work.job for work in self._working))

    def _give_up(self) -> None:
        """End what still waits though nothing is at work: it was stopped; or each needs itself, or one that does."""
        for job in self._waiting:
            if self._stopping:
                self._outcomes.append(Outcome(job))
                continue
            needs = ", ".join(sorted({path.name for path in job.needs}))
            self._end(Outcome(job, error=ValueError(f"it starts from {needs}, which waits for it: name another run")))

    def _fill(self) -> None:
        """Let jobs begin while there is room. One that begins has its first turn at once."""
        while len(self._active()) < self._count and (job := self._next()) is not None:
            self._waiting.remove(job)
            try:
                named(to_dict(job.config))
                crew = team(job.config.run.device)
                if crew.world > 1:
                    raise ValueError("several trainings at once need one process: do not use torchrun with --at-once")
                begin(job.config, crew)
            except Exception as error:
                self._end(Outcome(job, error=error))
                continue
            work = _Work(job, crew, self._stream(crew.device), self._board, self._count)
            self._working.append(work)
            self._advance(work)

    def _stream(self, device: torch.device) -> torch.cuda.Stream | None:
        """One that no training uses now."""
        if device.type != "cuda":
            return None
        used = [work.stream for work in self._working]
        free = [stream for stream in self._streams if stream not in used]
        if not free:
            free = [torch.cuda.Stream(device)]
            self._streams += free
        return free[0]

    def _advance(self, work: _Work) -> bool:
        """Give a training its turn, if it can continue; whether it had one."""
        if not work.ready:
            return False
        outcome = work.turn(self._stopping)
        if outcome is not None:
            self._working.remove(work)
            self._end(outcome)
        return True

    def _end(self, outcome: Outcome) -> None:
        if outcome.result is not None:
            try:
                write_result(run_path(outcome.job.config), outcome.job.config)
            except (OSError, ValueError) as error:  # the seed's own result is written: the same command finds it
                outcome = Outcome(outcome.job, outcome.result, error)
        self._outcomes.append(outcome)
        if outcome.error is None and outcome.result is not None:
            self._board.ended(f"{outcome.job.name}: {outcome.result['final_accuracy']:.2f}%")
        else:
            self._board.ended(f"{outcome.job.name}: {outcome.error}", "stopped" if outcome.stopped else "failed")
        self._ended(outcome)


class _Work:
    """A job at work."""

    def __init__(self, job: Job, crew: Team, stream: torch.cuda.Stream | None, board: Board, count: int) -> None:
        self.job, self.stream, self._count = job, stream, count
        self.training: Training | None = None
        self._surroundings = Surroundings(crew.device, stream)
        self._mark: Mark = None
        self._rested = 0.0
        self._row = board.row(events_of(job.config, job.seed, crew))
        self._turns: Generator[Mark, None, dict[str, Any]] = seed_turns(
            job.config, job.seed, crew, self._row, begun=self._begun
        )

    @property
    def done(self) -> int | None:
        """Steps that it has made; None before the training is there."""
        return None if self.training is None else self.training.step.step

    @property
    def total(self) -> int:
        """Steps that it makes in all."""
        return self.job.config.schedule.steps

    @property
    def ready(self) -> bool:
        """Whether the device has done what the next turn builds on."""
        return self._mark is None or self._mark.query()

    def turn(self, stopping: bool) -> Outcome | None:
        """Go on for a turn; the outcome if it was the last."""
        if stopping and self.training is not None:
            self.training.interrupted = True
        try:
            with self._surroundings.inside():
                self._mark = next(self._turns)
        except StopIteration as end:
            return Outcome(self.job, result=end.value)
        except Exception as error:  # out of memory, weights that are not finite, a data set that is missing, ...
            return Outcome(self.job, error=_light(error))
        return None

    def rest(self, rests: bool) -> None:
        """Begin or end a rest, which is no part of its training time."""
        self._row.rests = rests
        if rests:
            self._rested = time.perf_counter()
        elif self.training is not None:
            self.training.idle += time.perf_counter() - self._rested

    def save_and_stop(self) -> None:
        """Go on until it is saved, or has an error of its own."""
        while self.turn(stopping=True) is None:
            pass

    def close(self) -> None:
        """Let go of its folder."""
        with self._surroundings.inside():
            self._turns.close()

    def _begun(self, training: Training) -> None:
        training.at_once = self._count
        self.training = training


def _light(error: Exception) -> Exception:
    """The exception without what its frames hold: a network that has failed must not fill the device."""
    link: BaseException | None = error
    while link is not None:
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
    return error
