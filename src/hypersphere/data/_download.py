"""Fetch one published file: progress bar, checksum, atomic rename, archives unpacked beside their target."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from .._core.leftovers import owner, sweep
from ._unpack import unpack

TIMEOUT = 30.0  # seconds without a byte before a connection counts as dead
CHUNK = 1 << 20


@dataclass(frozen=True)
class Remote:
    """A published file.

    ``target`` is the path under the root that it is saved as or, for an archive (``unpack``), the folder it is unpacked
    into. ``md5`` is that of the file as downloaded; None where the publisher gives none and what is read is checked.
    """

    url: str
    target: str
    md5: str | None = None
    unpack: bool = False


def fetch(remote: Remote, root: Path, *, mirror: str | None = None, progress: bool = True) -> None:
    """Download ``remote`` under ``root``; nothing half-written is ever visible under its final name.

    ``mirror`` replaces the address up to the file's name. ``OSError`` says why it could not be had, ``ValueError`` that
    what came is not what was published.
    """
    target = root / remote.target
    if target.exists() and not remote.unpack:
        return
    file = remote.url.rsplit("/", 1)[-1]
    url = remote.url if mirror is None else f"{mirror.rstrip('/')}/{file}"
    folder = target if remote.unpack else target.parent
    folder.mkdir(parents=True, exist_ok=True)
    sweep(folder, ".partial-")
    with tempfile.TemporaryDirectory(prefix=f".partial-{owner()}-", dir=folder) as scratch:
        part = Path(scratch) / file
        found = _copy(url, part, progress)
        if remote.md5 is not None and found != remote.md5:
            raise ValueError(f"{url} has MD5 {found}, the published file {remote.md5}: nothing was kept")
        if remote.unpack:
            unpack(part, Path(scratch) / "content")
            _merge(Path(scratch) / "content", target)
        else:
            os.replace(part, target)


def _copy(url: str, path: Path, progress: bool) -> str:
    """Stream ``url`` into ``path``; its MD5."""
    digest = hashlib.md5(usedforsecurity=False)
    request = urllib.request.Request(url, headers={"User-Agent": "hypersphere"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as source, path.open("wb") as out:
        total = int(source.headers.get("Content-Length") or 0)
        done = 0
        with _bar(path.name, total) if progress else contextlib.nullcontext(lambda count: None) as advance:
            while chunk := source.read(CHUNK):
                out.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                advance(len(chunk))
    if total and done != total:
        raise OSError(f"{url} ended after {done} of {total} bytes")
    return digest.hexdigest()


@contextlib.contextmanager
def _bar(name: str, total: int) -> Iterator[Callable[[int], None]]:
    """A function to call with each count of new bytes: a rich bar, or a line for every tenth without rich."""
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )
    except ImportError:
        yield _plain(name, total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=total or None)
        yield lambda count: bar.update(task, advance=count)


def _plain(name: str, total: int) -> Callable[[int], None]:
    done, shown = 0, -1

    def advance(count: int) -> None:
        nonlocal done, shown
        done += count
        tenth = 10 * done // total if total else done // (16 * CHUNK)
        if tenth > shown:
            shown = tenth
            share = f" ({10 * tenth}%)" if total else ""
            print(f"{name}: {done / 2**20:.1f} MiB{share}", file=sys.stderr, flush=True)

    return advance


def _merge(source: Path, target: Path) -> None:
    """Move everything in ``source`` into ``target``; another process may have put the same files there already."""
    for item in sorted(source.iterdir()):
        place = target / item.name
        try:
            os.replace(item, place)
        except OSError:
            if item.is_dir() and place.is_dir():
                _merge(item, place)
            else:
                shutil.move(str(item), str(place))
