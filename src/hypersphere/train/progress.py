"""What one sees while it trains: a live bar in a terminal, plain lines elsewhere, TensorBoard beside."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._core.streams import hush
from ..runs.quantities import declared

_FIRST = ("loss", "generator_loss", "penalty", "accuracy", "best_accuracy")


class Progress:
    """Rate, time left, loss, accuracy, λ and energy. ``kind``: auto, rich, plain, off.

    When its reader is gone (``| head``, a closed terminal), it becomes silent and training continues.
    """

    def __init__(self, kind: str = "auto", events: Path | None = None) -> None:
        self._kind = settle(kind)
        self._events = events
        self._values: dict[str, float] = {}
        self._bar: Any = None
        self._writer: Any = None

    def start(self, title: str, total: int, done: int) -> None:
        self._values, self._title, self._total = {}, title, total
        self._begin, self._first = time.perf_counter(), done
        if self._events is not None:
            self._writer = _event_writer(self._events, done)
        with self._unheard():
            self._open(done)

    def update(self, step: int, line: dict[str, float]) -> None:
        self._values |= line
        if self._writer is not None:
            for name, value in line.items():
                self._writer.add_scalar(name, value, step)
        if self._kind != "off":
            self._show(step, line)

    def _open(self, done: int) -> None:
        """Prepare what is shown while it trains."""
        if self._kind == "rich":
            self._bar = _Live(self._title, self._total, done)

    def _show(self, step: int, line: dict[str, float]) -> None:
        """Show the newest values, after ``line`` was added to them."""
        if self._bar is not None:
            self._bar.update(step, self._numbers())
        elif "loss" in line or "accuracy" in line:
            self.say(f"{self._title}  {step}/{self._total}  {self._numbers()}  {self._left(step)}".rstrip())

    def _numbers(self) -> str:
        """The newest values as words."""
        forms = {one.key: one.short for one in declared() if one.short}
        names = [*_FIRST, *(key for key in forms if key not in _FIRST)]
        shown = [forms[name].format(self._values[name]) for name in names if self._shows(name)]
        if "rate" in self._values:
            shown.append(f"{self._values['rate']:.1f} steps/s")
        return "  ".join(shown)

    def say(self, text: str) -> None:
        if self._kind != "off":
            with self._unheard():
                print(text, flush=True)

    def stop(self) -> None:
        if self._bar is not None:
            with self._unheard():
                self._bar.stop()
            self._bar = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    @contextmanager
    def _unheard(self) -> Iterator[None]:
        """Go quiet where the standard output cannot be written."""
        try:
            yield
        except (OSError, ValueError, SystemExit) as error:  # ValueError: closed; SystemExit: rich, on a broken pipe
            self._kind = "off"
            if isinstance(error, BrokenPipeError):
                hush()

    def _shows(self, name: str) -> bool:
        return name in self._values and (name != "penalty" or self._values[name] != 0)

    def _left(self, step: int) -> str:
        if not self._first < step < self._total:
            return ""
        speed = (step - self._first) / max(time.perf_counter() - self._begin, 1e-9)
        seconds = int((self._total - step) / speed)
        return f"{seconds // 60}:{seconds % 60:02d} left"


def settle(kind: str) -> str:
    """Which kind of progress ``auto`` and ``rich`` come to here: rich, plain or off."""
    if kind in ("auto", "rich"):
        try:
            import rich  # noqa: F401
        except ImportError:
            return "plain"
        return "rich" if kind == "rich" or (sys.stdout is not None and sys.stdout.isatty()) else "plain"
    return kind


class _Live:
    """A bar with the time left, and a line of numbers below it."""

    def __init__(self, title: str, total: int, done: int) -> None:
        from rich.console import Console, Group
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
        from rich.text import Text

        self._bar = Bar(TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn())
        self._task = self._bar.add_task(title, total=total, completed=done)
        self._numbers = Text()
        own = Console()  # rich silences a console whose pipe breaks, and everybody shares the default one
        self._live = Live(Group(self._bar, self._numbers), console=own, refresh_per_second=5)
        self._live.start()

    def update(self, step: int, numbers: str) -> None:
        self._bar.update(self._task, completed=step)
        self._numbers.plain = f"  {numbers}"

    def stop(self) -> None:
        self._live.stop()


def _event_writer(folder: Path, purge: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=purge + 1)
