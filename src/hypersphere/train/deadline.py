"""As many trainings as possible before a time: those that cannot end by then rest while the others end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

_KEPT = 0.8  # of what is known of a pace, at each look
_SURE = 0.9  # share of the time left that must be enough where one is to go on or to begin
_HOPE = 1.25  # as many times the time left may one need that is at work and has the device to itself: paces are guesses


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

    Trainings that share a device make each other slower. One that makes p steps a second beside n − 1 others would
    make about n·p alone, so its last r steps take r/(n·p) seconds of the device. Those that take the least can end
    together while the sum of these seconds is not more than the time that is left. The others rest.

    Args:
        seconds: How long the trainings may work.
        count: How many may work at a time.
        now: The clock, in seconds.
    """

    def __init__(self, seconds: float, count: int, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._end, self._count = now, now() + seconds, count
        self._window = max(seconds / 100, 2.0)  # seconds between two looks
        self._looked = now()
        self._paces: dict[Runner, _Pace] = {}
        self._rest: set[Runner] = set()
        self._late: set[Runner] = set()  # at the last look
        self.spare = True
        """Whether another may begin: there is time that those at work do not need, or none of them can end."""

    @property
    def over(self) -> bool:
        """Whether the time has come."""
        return self._now() >= self._end

    def resting(self, working: Iterable[R], more: Callable[[], bool] = lambda: False) -> set[R]:
        """Those of ``working`` that should rest now.

        One rests where two looks in a row say so. Where nobody can end in time, they work on, so that what they do is
        less to do next time; or all rest, if others wait (``more``), which may be shorter. Where nobody waits, the
        shortest keeps the device if it nearly can end.
        """
        runners = list(working)
        if self._now() - self._looked >= self._window:
            self._look(runners, more)
        return {runner for runner in runners if runner in self._rest}

    def _look(self, runners: list[R], more: Callable[[], bool]) -> None:
        seconds, self._looked = self._now() - self._looked, self._now()
        active = [runner for runner in runners if runner not in self._rest]
        for runner in active:
            self._paces.setdefault(runner, _Pace()).see(runner.done, seconds / len(active))
        for resting in self._rest:
            self._paces[resting].pause()
        self._paces = {runner: pace for runner, pace in self._paces.items() if runner in runners}
        needs = {runner: need for runner in runners if (need := self._need(runner)) is not None}
        ends, total = self._can_end(needs, 1.0 if more() else _HOPE)
        unknown = len(runners) - len(needs)
        late = needs.keys() - ends
        if ends or unknown:
            rest = {runner for runner in late if runner in self._rest or runner in self._late}
        else:
            rest = set(needs) if more() else set()
        work = [runner for runner in sorted(needs, key=needs.__getitem__) if runner not in rest]
        self._rest = rest | set(work[max(self._count - unknown, 0) :])
        self._late = set(late)
        self.spare = not unknown and (not ends or total <= _SURE * (self._end - self._now()))

    def _can_end(self, needs: dict[R, float], hope: float) -> tuple[set[R], float]:
        """Those that can end in time together, the shortest first, and the seconds of the device that they take.

        The shortest may need ``hope`` times the time that is left: if it nearly can end, the others, woken, would take
        that chance. Where others wait to begin, they may be shorter, and it may not.
        """
        left, total = self._end - self._now(), 0.0
        ends: set[R] = set()
        for runner, need in sorted(needs.items(), key=lambda item: item[1]):
            share = _SURE if runner in self._rest else 1.0 if ends else hope
            if total + need > left * share:
                break
            total += need
            ends.add(runner)
        return ends, total

    def _need(self, runner: Runner) -> float | None:
        """Seconds of the device until its last step; None if its pace is not known yet."""
        pace = self._paces[runner].alone if runner in self._paces else None
        return None if pace is None else (runner.total - (runner.done or 0)) / pace


class _Pace:
    """How many steps a training makes in a second of the device, mostly in the last few looks."""

    def __init__(self) -> None:
        self._before: int | None = None
        self._steps, self._seconds = 0.0, 0.0

    def see(self, done: int | None, seconds: float) -> None:
        """It has made ``done`` steps, and had ``seconds`` of the device since the last look."""
        if done is not None and self._before is not None:
            self._steps = _KEPT * self._steps + done - self._before
            self._seconds = _KEPT * self._seconds + seconds
        self._before = done

    def pause(self) -> None:
        """It rests: the next look is the first of a new stretch."""
        self._before = None

    @property
    def alone(self) -> float | None:
        return self._steps / self._seconds if self._steps > 0 else None
