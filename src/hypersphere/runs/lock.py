"""One process at a time in a folder: an advisory lock that names its owner.

The lock is the operating system's (``flock``), which ends with the process that holds it, however that ends. Its file
says who that is, and its time stamp is renewed every few seconds. Where the file system has no locks, as some network
file systems, and between machines, that time stamp decides: a lock that was not renewed for :data:`STALE` seconds is
taken over.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._core.leftovers import alive

try:
    import fcntl
except ImportError:  # not on Windows: the time stamp alone decides there
    fcntl = None  # type: ignore[assignment]

RENEWED, STALE = 5.0, 60.0
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


class Locked(OSError):
    """Another process holds the lock; the message names it."""


@contextmanager
def locked(folder: Path, what: str, wait: float = 0.0, option: str = "--run.name") -> Iterator[int]:
    """Hold the lock of a folder.

    The value is the open handle. A process that inherits it (``pass_fds``) holds the lock, too, until it ends: should
    this one be killed, the folder stays locked for as long as such processes go on.

    Args:
        folder: It gets a file ``.lock``, which is removed at the end.
        what: What the folder holds, for the message.
        wait: How many seconds to wait for another process.
        option: The option that chooses another folder, for the message.

    Raises:
        Locked: If another process still has it then.
    """
    path, until = folder / ".lock", time.monotonic() + wait
    handle = _take(path)
    while handle is None:
        if time.monotonic() >= until:
            raise Locked(f"{what} is in use by {_owner(path)}: wait for it, or choose another {option}")
        time.sleep(0.05)
        handle = _take(path)
    ended = threading.Event()
    about = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    renewer = threading.Thread(target=_renew, args=(path, about, ended), daemon=True)
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, json.dumps(about).encode(), 0)
        renewer.start()
        yield handle
    finally:
        ended.set()
        with contextlib.suppress(OSError):
            if _read(path) == about:  # it may have been taken over, if this machine slept
                path.unlink()
        os.close(handle)


def _take(path: Path) -> int | None:
    """An open handle that holds the lock, or None."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        known = _flock(handle)
        if known is False or _held_elsewhere(path, handle, locks=known is True):
            os.close(handle)
            return None
        if os.fstat(handle).st_ino != path.stat().st_ino:  # its owner removed it between our opening and locking
            os.close(handle)
            return None
    except FileNotFoundError:
        os.close(handle)
        return None
    except BaseException:
        os.close(handle)
        raise
    return handle


def _flock(handle: int) -> bool | None:
    """Whether the operating system gave us the lock; None where it has none."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return None
    return True


def _held_elsewhere(path: Path, handle: int, locks: bool) -> bool:
    """Whether somebody renews the lock whom ``flock`` does not know of: on another machine, or without ``locks``."""
    owner = _read(path)
    if not owner or time.time() - os.fstat(handle).st_mtime > STALE:
        return False
    here = owner.get("host") == socket.gethostname()
    pid = owner.get("pid")
    return not here or (not locks and isinstance(pid, int) and alive(pid))


def _renew(path: Path, about: dict[str, Any], ended: threading.Event) -> None:
    while not ended.wait(RENEWED):
        with contextlib.suppress(OSError):
            if _read(path) == about:
                os.utime(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _owner(path: Path) -> str:
    owner = _read(path)
    if not owner:
        return "another process"
    told, pid = f"process {owner.get('pid')} on {owner.get('host')} (since {owner.get('since')})", owner.get("pid")
    if owner.get("host") == socket.gethostname() and isinstance(pid, int) and not alive(pid):
        return f"processes that still run, although {told}, which started them, has ended"  # they inherited the lock
    return told
