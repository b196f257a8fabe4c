"""The run folder of a command that failed before training began: what the command made of it is taken away again.

A folder that was there before stays, and so does everything as soon as a seed has a file, or another process has opened
the run.
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


@contextmanager
def opening(folder: Path) -> Iterator[None]:
    """Note what the ``with`` block, which opens a run, makes of it; if it fails, a new folder goes at once."""
    place, there, before = folder.absolute(), folder.exists(), _settings(folder)
    try:
        yield
    except BaseException:
        if not there:
            with suppress(OSError):
                folder.rmdir()
        raise
    earlier, now = _made.pop(place, None), _settings(folder)
    ours = earlier is not None and earlier.settings == before  # another seed of the same run
    if now is not None and (before is None or ours):
        _made[place] = _Made(now, not there or (earlier is not None and earlier.folder))


def withdraw(folder: Path) -> None:
    """Take away what this process made of the run, if no seed has begun; call it without the lock of a seed."""
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
    seeds = list(folder.glob("seed-*"))
    if any(not path.is_dir() for path in folder.glob("seed-*/**/*")):
        return False
    for path in [*(seed / "checkpoints" for seed in seeds), *seeds]:
        if path.exists():
            path.rmdir()
    return True


def _settings(folder: Path) -> tuple[int, int] | None:
    """By which a file that was written again is told from the one before."""
    try:
        found = (folder / "config.json").stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
