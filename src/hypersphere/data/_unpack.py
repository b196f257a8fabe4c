"""Archives and compressed files, which may hold far more than they weigh.

A file of a few kilobytes can decompress to terabytes. What an archive declares is added up before anything is written,
and what comes out is counted while it is: neither may be more than :data:`RATIO` times the size of the file, beyond
:data:`FREE` bytes, nor more than the disk has left. Image sets reach a ratio of ten.
"""

from __future__ import annotations

import gzip
import io
import lzma
import shutil
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, cast

RATIO, FREE, MEMBERS = 100, 64 << 20, 5_000_000
_CHUNK = 1 << 20


def unpack(archive: Path, folder: Path) -> None:
    """Write the plain files of a zip or tar archive below ``folder``.

    Raises:
        ValueError: If it is damaged, encrypted, would write elsewhere, or holds more than its size allows.
    """
    folder.mkdir()
    limit = min(_limit(archive), shutil.disk_usage(folder).free)
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as content:
                _unzip(content, folder, limit)
        else:
            with tarfile.open(archive) as content:
                _untar(content, folder, limit)
    except _TooMuch as error:
        raise ValueError(f"{archive.name} is not unpacked: {error}, at most {limit:,} are allowed here") from None
    except RuntimeError as error:  # what zipfile says of encrypted members and of unknown methods
        raise ValueError(f"{archive.name} cannot be unpacked: {error}") from error
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        raise ValueError(f"{archive.name} is not a readable archive: {error}") from error


def gunzip(path: Path) -> bytes:
    """The content of a gzip file.

    Raises:
        ValueError: If it is damaged, or more than its size allows.
    """
    limit, out = _limit(path), io.BytesIO()
    try:
        with gzip.open(path) as content:
            _copy(cast(IO[bytes], content), out, limit)
    except _TooMuch as error:
        raise ValueError(f"{path} is not read: {error}, at most {limit:,} are allowed for its size") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is not a complete gzip file ({error}): delete it and load again") from None
    return out.getvalue()


class _TooMuch(Exception):
    """More comes out, or is declared to, than the size of the file allows."""


def _limit(path: Path) -> int:
    return max(FREE, RATIO * path.stat().st_size)


def _unzip(content: zipfile.ZipFile, folder: Path, limit: int) -> None:
    members = content.infolist()
    _check_declared(sum(member.file_size for member in members), len(members), limit)
    root = folder.resolve()
    for member in members:
        place = (root / member.filename).resolve()
        if not place.is_relative_to(root):
            raise ValueError(f"{member.filename!r} would be written outside of the folder")
        if member.is_dir():
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        with content.open(member) as source, place.open("wb") as out:
            limit -= _copy(source, out, limit)


def _untar(content: tarfile.TarFile, folder: Path, limit: int) -> None:
    """Plain files and folders inside ``folder`` alone; Python before 3.11.4 has no filter that sees to it."""
    size, count, root = 0, 0, folder.resolve()
    for member in content:
        size, count = size + member.size, count + 1
        _check_declared(size, count, limit)  # tarfile writes no more than is declared
        if not hasattr(tarfile, "data_filter") and (
            not (member.isfile() or member.isdir()) or not (root / member.name).resolve().is_relative_to(root)
        ):
            raise tarfile.TarError(f"{member.name!r} would be written outside of the folder")
    if hasattr(tarfile, "data_filter"):
        content.extractall(folder, filter="data")
    else:
        content.extractall(folder)


def _check_declared(size: int, count: int, limit: int) -> None:
    if size > limit:
        raise _TooMuch(f"it declares {size:,} bytes")
    if count > MEMBERS:
        raise _TooMuch(f"it declares {count:,} files")


def _copy(source: IO[bytes], out: IO[bytes], limit: int) -> int:
    """Copy all of it and return its size."""
    size = 0
    while chunk := source.read(_CHUNK):
        size += len(chunk)
        if size > limit:
            raise _TooMuch(f"more than {limit:,} bytes come out of it")
        out.write(chunk)
    return size
