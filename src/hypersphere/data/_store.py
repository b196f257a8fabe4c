"""Where the files of a data set lie, whether they are the right ones, and what to do if they are missing."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ._download import Remote, fetch
from ._unpack import gunzip


def default_root() -> Path:
    """Return the folder where data sets are looked for.

    Returns:
        ``$HYPERSPHERE_DATA``, else ``hypersphere/data`` in the user's cache folder.

    Example:
        >>> hs.data.default_root().is_absolute()
        True
    """
    if chosen := os.environ.get("HYPERSPHERE_DATA"):
        return Path(chosen).expanduser()
    if cache := os.environ.get("XDG_CACHE_HOME"):
        base = Path(cache)
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        base = Path(os.environ["LOCALAPPDATA"])
    else:
        base = Path.home() / ".cache"
    return base / "hypersphere" / "data"


PUT_THERE = (
    "Put the files there, or name the folder that holds them: root=... (--data.root to train, --root afterwards) or "
    "$HYPERSPHERE_DATA"
)


@dataclass(frozen=True)
class Layout:
    """The folders a set may lie in (official one first), the files or folders it needs there, where to get them.

    A file is a tuple of the spellings that will do, e.g. plain or gzipped.
    """

    folders: tuple[str, ...]
    files: tuple[tuple[str, ...], ...]
    remotes: tuple[Remote, ...] = ()


@dataclass(frozen=True)
class Store:
    """One root folder and the rules for reading from it."""

    name: str
    root: Path
    download: bool = True
    verify: bool = True
    progress: bool = True
    mirror: str | None = None
    files: list[Path] = field(default_factory=list, compare=False)
    """What was read so far: an error in what follows is about the last of them."""

    def find(self, layouts: Sequence[Layout]) -> tuple[int, Path] | None:
        """Which layout is complete, and in which folder; ``root`` itself may be that folder."""
        for number, layout in enumerate(layouts):
            for folder in [*(self.root / name for name in layout.folders), self.root]:
                if all(any((folder / name).exists() for name in names) for names in layout.files):
                    return number, folder
        return None

    def locate(self, *layouts: Layout) -> tuple[int, Path]:
        """Like :meth:`find`; what is missing is downloaded, or named in the error. The first layout is the official."""
        found = self.find(layouts)
        problem = "download=False" if not self.download else "there is no public address to fetch it from"
        if found is None and self.download:
            try:
                for remote in layouts[0].remotes:
                    fetch(remote, self.root, mirror=self.mirror, progress=self.progress)
            except OSError as error:
                problem = f"the download failed: {error}"
            found = self.find(layouts)
        if found is None:
            raise FileNotFoundError(self._missing(layouts[0], problem))
        return found

    def read(self, path: Path, md5: str | None = None) -> bytes:
        """The bytes of ``path`` or of its ``.gz`` twin, decompressed; their MD5 must be ``md5``."""
        self.files.append(path)
        if path.is_file():
            data = path.read_bytes()
        else:
            path = path.with_name(path.name + ".gz")
            data = gunzip(path)
        self.check(path, data, md5)
        return data

    def check(self, path: Path, data: bytes, md5: str | None) -> None:
        """Raise if ``data``, the content of ``path``, is not what was published."""
        if not self.verify or md5 is None:
            return
        found = hashlib.md5(data, usedforsecurity=False).hexdigest()
        if found != md5:
            raise ValueError(
                f"{path} has MD5 {found}, the published file {md5}: delete it and load {self.name!r} again, "
                "or pass verify=False to read it anyway"
            )

    def _missing(self, layout: Layout, problem: str) -> str:
        folder = self.root / layout.folders[0]
        absent = [names[0] for names in layout.files if not any((folder / name).exists() for name in names)]
        shown = ", ".join(absent[:4]) + (f" and {len(absent) - 4} more" if len(absent) > 4 else "")
        lines = [
            f"data set {self.name!r} is not in {self.root} ({problem})",
            f"  missing: {shown}",
            f"  folder:  {folder}",
        ]
        lines += [f"  from:    {remote.url}  ->  {self.root / remote.target}" for remote in layout.remotes]
        lines.append(PUT_THERE)
        return "\n".join(lines)
