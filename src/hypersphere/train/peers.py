"""What remains to be said when one of several processes ends: one line, from one of those that are left."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch.distributed as dist

from .._core.leftovers import alive, this_host
from ..runs import Team
from .stopped import Stopped

MARK = ".lost"
"""In the run folder: the survivor that could make this file speaks for all. Rank 0's process is in its name."""
_SIGNS = ("gloo", "nccl", "connection", "broken pipe", "socket", "timed out", "peer")
_PATIENCE = 5.0


@contextmanager
def together(team: Team, folder: Path) -> Iterator[None]:
    """Turn the end of another process, which shows as an error of the exchange, into :class:`Stopped`.

    One survivor shows the message, the lowest rank if it can; the others stop without a word.
    """
    try:
        yield
    except Stopped:
        raise
    except RuntimeError as error:
        if team.world == 1 or not _of_exchange(error):
            raise
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends the others at once: not before it is said
        gone = _gone(team)
        speaker = team.rank if _speaks(team, folder, gone) else -1
        raise Stopped(_message(team, gone, error), speaker=speaker) from error


def writer_first(team: Team, work: Callable[[], object]) -> None:
    """Let the writer do something that the others wait for. If it fails, no process continues.

    Raises:
        Stopped: With the writer's message, in the other processes; the writer raises its own exception.
    """
    failed: list[Exception] = []
    told: list[str | None] = [None]
    if team.writer:
        try:
            work()
        except Exception as error:
            failed, told = [error], [str(error) or type(error).__name__]
    if team.world > 1:
        dist.broadcast_object_list(told, 0)
    if failed:
        raise failed[0]
    if told[0] is not None:
        raise Stopped(told[0], code=2)


def _of_exchange(error: RuntimeError) -> bool:
    words = str(error).lower()
    return isinstance(error, dist.DistError) or any(sign in words for sign in _SIGNS)


def _gone(team: Team) -> list[int]:
    """The ranks on this machine whose process has ended; one that has failed takes a moment to."""
    until = time.monotonic() + _PATIENCE
    while True:
        found = [rank for rank, (host, pid) in enumerate(team.peers) if host == this_host() and not alive(pid)]
        if found or time.monotonic() > until:
            return found
        time.sleep(0.05)


def _speaks(team: Team, folder: Path, gone: list[int]) -> bool:
    before = [rank for rank in range(team.rank) if rank not in gone]
    time.sleep(0.3 * min(len(before), 3))  # the first that is left goes first
    host, pid = team.peers[0]
    try:
        with suppress(FileExistsError):
            os.close(os.open(folder / f"{MARK}{pid}@{host}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            return True
    except OSError:
        return team.writer
    return False


def _message(team: Team, gone: list[int], error: RuntimeError) -> str:
    ends = ", ".join(f"{rank} (process {team.peers[rank][1]})" for rank in gone)
    if not ends:
        reason = str(error).strip().partition("\n")[0][:120]
        who = f"one of the {team.world} processes cannot be reached any more ({reason})"
    else:
        who = f"the process of rank {ends} ended, one of {team.world}"
    return f"{who}. Everything up to the last checkpoint is saved: give the same torchrun command again to continue"
