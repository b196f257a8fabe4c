"""The run folder of a command that failed before training began: what the command made of it is taken away again.

A folder that was there before stays, and so do the settings as soon as a seed has a file, or another process has opened
the run. Empty folders of seeds that this command made always go.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ..runs.lock import locked


class _Made(NamedTuple):
    """What this process made of a run: the settings, as they were last written here, and perhaps the folder."""

    settings: tuple[int, int]
    folder: bool


_made: dict[Path, _Made] = {}
_before: dict[Path, set[str]] = {}
"""The seeds that a run had when this process first opened it."""


@contextmanager
def opening(folder: Path) -> Iterator[None]:
    """Note what the ``with`` block, which opens a run, makes of it; if it fails, a new folder goes at once."""
    place, there, before = folder.absolute(), folder.exists(), _settings(folder)
    seeds = {path.name for path in folder.glob("seed-*")}
    try:
        yield
    except BaseException:
        if not there:
            with suppress(OSError):
                folder.rmdir()
        raise
    _before.setdefault(place, seeds)
    earlier, now = _made.pop(place, None), _settings(folder)
    ours = earlier is not None and earlier.settings == before  # another seed of the same run
    if now is not None and (before is None or ours):
        _made[place] = _Made(now, not there or (earlier is not None and earlier.folder))


def withdraw(folder: Path) -> None:
    """Take away the empty folders of seeds that this process made, and all that it made of the run if none has begun.

    Call it without the lock of a seed.
    """
    known = _before.get(folder.absolute(), set())
    for seed in folder.glob("seed-*"):
        if seed.name not in known:
            _remove_empty(seed)
    made = _made.get(folder.absolute())
    if made is None:
        return
    with suppress(OSError):  # somebody else is in it, or it cannot be written: it stays
        with locked(folder, str(folder)):
            if _settings(folder) != made.settings or not _emptied(folder):
                return
            (folder / "config.json").unlink()
        del _made[folder.absolute()]
        if made.folder:
            folder.rmdir()


def _emptied(folder: Path) -> bool:
    """Remove the folders of seeds, if no seed has a file; whether it was so."""
    if any(not path.is_dir() for path in folder.glob("seed-*/**/*")):
        return False
    for seed in folder.glob("seed-*"):
        _remove_empty(seed)
    return not any(folder.glob("seed-*"))


def _remove_empty(seed: Path) -> None:
    """Remove the folder of a seed that has no file; the lock of a process that trains it is one."""
    if any(not path.is_dir() for path in seed.glob("**/*")):
        return
    with suppress(OSError):  # it has a file by now
        if (seed / "checkpoints").exists():
            (seed / "checkpoints").rmdir()
        seed.rmdir()


def _settings(folder: Path) -> tuple[int, int] | None:
    """By which a file that was written again is told from the one before."""
    try:
        found = (folder / "config.json").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
