"""As many trainings as possible before a time: those that would end too late rest while the others end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar


class Runner(Protocol):
    """A training that is at work."""

    @property
    def done(self) -> int | None:
        """Steps that it has made; None before it knows."""

    @property
    def total(self) -> int:
        """Steps that it makes in all."""


R = TypeVar("R", bound=Runner)


class Deadline:
    """Until when trainings may work, and which of them should rest.

    Trainings that share a device make each other slower. If not all of them can end in time, it is better that the one
    with the most to do rests: the others become faster, and end.

    Args:
        seconds: How long the trainings may work.
        now: The clock, in seconds.
    """

    def __init__(self, seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._end = now, now() + seconds
        self._window = max(seconds / 100, 2.0)  # seconds in which a pace is measured
        self._seen: dict[Runner, tuple[float, int]] = {}

    @property
    def over(self) -> bool:
        """Whether the time has come."""
        return self._now() >= self._end

    def too_late(self, runners: Iterable[R]) -> R | None:
        """The one of those at work that should rest now; None where all end in time or their paces are not known yet.

        The last one never rests: what it does is saved, and is less to do next time.
        """
        working = list(runners)
        paces = {runner: self._pace(runner) for runner in working}
        known = {runner: pace for runner, pace in paces.items() if pace is not None}
        if len(known) < len(working):
            return None
        self.changed()
        if len(working) < 2:
            return None
        last = max(working, key=lambda runner: _needs(runner, known[runner]))
        return last if self._now() + _needs(last, known[last]) > self._end else None

    def changed(self) -> None:
        """Measure all paces anew: others are at work than before."""
        self._seen.clear()

    def _pace(self, runner: Runner) -> float | None:
        """Steps a second since it was first seen, if that was long enough ago."""
        done, now = runner.done, self._now()
        if done is None:
            return None
        since, before = self._seen.setdefault(runner, (now, done))
        return (done - before) / (now - since) if now - since >= self._window and done > before else None


def _needs(runner: Runner, pace: float) -> float:
    """Seconds until its last step."""
    return (runner.total - (runner.done or 0)) / pace
