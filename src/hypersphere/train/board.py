"""One table for trainings that run at once: a row for each, live in a terminal, now and then as text elsewhere."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from .._core.streams import aligned
from .progress import Progress, settle

EVERY = 30.0
"""Seconds between two tables as text."""


class Board:
    """Where every training that runs has its row.

    Args:
        total: How many trainings there are in all.
        kind: ``auto``, ``rich``, ``plain`` or ``off``, as for one training.
    """

    def __init__(self, total: int, kind: str = "auto") -> None:
        self.total, self.kind = total, settle(kind)
        self.ends = dict.fromkeys(("done", "failed", "stopped"), 0)
        self._rows: list[Row] = []
        self._shown = time.monotonic()
        self._live: Any = None

    def row(self, events: Path | None = None) -> Row:
        """The progress of a training that begins, which writes TensorBoard's ``events`` as usual."""
        return Row(self, events)

    def ended(self, words: str, how: str = "done") -> None:
        """Count a training that is ``"done"``, has ``"failed"`` or was ``"stopped"`` to go on later, and say so."""
        self.ends[how] += 1
        self.say(words)

    def say(self, text: str) -> None:
        """A separate line above the table of a terminal."""
        Progress(self.kind).say(text)

    def stop(self) -> None:
        """Leave the terminal as it is now."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def text(self) -> str:
        """The table: how many are done, and a line for every training that runs."""
        waiting = self.total - sum(self.ends.values()) - len(self._rows)
        rate = sum(row.rate for row in self._rows if not row.rests)
        rests = sum(row.rests for row in self._rows)
        counts = {**self.ends, "at work": len(self._rows) - rests, "at rest": rests, "waiting": waiting}
        words = ", ".join(f"{count} {name}" for name, count in counts.items() if count or name == "done")
        lines = [f"{words} of {self.total} trainings; {rate:.1f} steps/s together"]
        table = aligned([row.cells() for row in self._rows], left=4)
        return "\n".join([*lines, *(f"  {line}" for line in table)])

    def enter(self, row: Row) -> None:
        """A training shows its first step."""
        self._rows.append(row)
        if self.kind == "rich" and self._live is None:
            from rich.console import Console
            from rich.live import Live

            self._live = Live(get_renderable=self._rendered, console=Console(), refresh_per_second=2)
            self._live.start()

    def leave(self, row: Row) -> None:
        """A training shows nothing more."""
        if row in self._rows:
            self._rows.remove(row)
        if not self._rows:
            self.stop()

    def refresh(self) -> None:
        """Show the table as text, if the last time is a while ago."""
        if self.kind == "plain" and time.monotonic() - self._shown >= EVERY:
            self._shown = time.monotonic()
            self.say(self.text())

    def _rendered(self) -> Any:
        from rich.text import Text

        return Text(self.text())


class Row(Progress):
    """The progress of one of several trainings."""

    rests = False
    """Whether it stands still, so that others end."""

    def __init__(self, board: Board, events: Path | None) -> None:
        super().__init__(board.kind, events)
        self._board = board
        self._at = 0

    @property
    def rate(self) -> float:
        """Steps a second, of the last interval of the log."""
        return self._values.get("rate", 0.0)

    def cells(self) -> tuple[str, str, str, str]:
        """What a row of the table holds."""
        if self.rests:
            return self._title, f"{self._at}/{self._total}", "rests", ""
        return self._title, f"{self._at}/{self._total}", self._numbers(), self._left(self._at)

    def stop(self) -> None:
        super().stop()
        self._board.leave(self)

    def _open(self, done: int) -> None:
        self._at = done
        self._board.enter(self)

    def _show(self, step: int, line: dict[str, float]) -> None:
        self._at = step
        with self._unheard():
            self._board.refresh()
