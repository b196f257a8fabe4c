"""An export folder appears as a whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .._core.leftovers import abandoned, owner, sweep
from ..runs.files import read_json, sync_folder

MANIFEST = "export.json"
"""Says what the export is, and lists its files: nothing else is ever removed."""


def check_target(target: Path, force: bool) -> None:
    """Refuse a target that would lose something."""
    if target.is_dir() and not any(target.iterdir()):
        return
    if not target.exists():
        return
    if not target.is_dir():
        raise ValueError(f"{target} is a file: choose another --out")
    foreign = sorted(entry.name for entry in target.iterdir() if entry.name not in _own(target))
    if foreign:
        raise ValueError(f"{target} holds {', '.join(foreign[:3])}, which no export wrote: choose another --out")
    if not force:
        raise ValueError(f"{target} holds an export already: give --force to replace it, or choose another --out")


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A hidden folder beside ``target`` that takes its place at the end, or vanishes with an exception."""
    mark = f".{target.name}."
    hidden = target.parent / f"{mark}{owner()}"
    old = target.parent / f"{mark}{owner()}.old"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for left in abandoned(target.parent, mark):
            if left.suffix == ".old" and not target.exists():  # killed between the two renames
                os.replace(left, target)
        sweep(target.parent, mark)
        shutil.rmtree(hidden, ignore_errors=True)
        hidden.mkdir()
    except OSError as error:
        raise OSError(f"{target} cannot be written ({error.strerror}): choose another folder with --out") from error
    try:
        yield hidden
        sync_folder(hidden)
        if target.exists():
            os.replace(target, old)
        try:
            os.replace(hidden, target)
        except OSError:
            if old.exists():
                os.replace(old, target)
            raise
        sync_folder(target.parent)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)


def _own(target: Path) -> set[str]:
    path = target / MANIFEST
    if not path.exists():
        return set()
    content = read_json(path)
    files = content.get("files") if isinstance(content, dict) else None
    if not isinstance(files, dict):
        raise ValueError(f"{path} is not a list of an export's files: choose another --out")
    return {MANIFEST, "README.md", *files}
