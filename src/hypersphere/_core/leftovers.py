"""Temporary files carry the name of their owner, so that what a killed process left is told from what is in use.

``config.json.tmp4711@host`` is of process 4711 on that machine. It is swept once that process is gone; what another
machine left, once it has been untouched for :data:`STALE` seconds.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import time
from pathlib import Path

STALE = 3600.0
_HOST = re.sub(r"[^A-Za-z0-9]", "_", socket.gethostname())


def owner() -> str:
    """This process, as a part of a file's name."""
    return f"{os.getpid()}@{_HOST}"


def this_host() -> str:
    """This machine, as :func:`owner` names it."""
    return _HOST


def sweep(folder: Path, *marks: str) -> None:
    """Remove files and folders in ``folder`` whose name has a mark and then an owner that is gone, e.g. ``.tmp``."""
    for entry in abandoned(folder, *marks):
        with contextlib.suppress(OSError):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def abandoned(folder: Path, *marks: str) -> list[Path]:
    """What :func:`sweep` removes."""
    found = re.compile(rf"(?:{'|'.join(map(re.escape, marks))})([0-9]+)(?:@([A-Za-z0-9_]+))?(?:[-.]|$)")
    entries = [(entry, found.search(entry.name)) for entry in (folder.iterdir() if folder.is_dir() else ())]
    return [entry for entry, name in entries if name and _abandoned(entry, int(name[1]), name[2] or _HOST)]


def alive(pid: int) -> bool:
    """Whether a process of this machine runs; one that has ended and was not yet asked for its status does not."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state not in ("Z", "X")


def _abandoned(entry: Path, pid: int, host: str) -> bool:
    if host == _HOST:
        return not alive(pid)
    try:
        return time.time() - entry.stat().st_mtime > STALE
    except OSError:
        return False
