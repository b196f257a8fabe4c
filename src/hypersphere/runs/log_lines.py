"""The lines of ``log.jsonl``: the whole ones, their hash, and whether they are still what was written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .files import digest, json_lines, sync_folder


def whole_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, empty if there is none; a torn one does not count."""
    found = []
    for line in path.read_bytes().splitlines() if path.exists() else []:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and isinstance(entry.get("step"), int):
            found.append(entry)
    return found


def synced(path: Path) -> tuple[int, str]:
    """Put a log on the disk, before what is written after its last line: its number of lines, and hash."""
    if path.exists():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        sync_folder(path.parent)
    lines = whole_lines(path)
    return len(lines), digest(json_lines(lines))


def doubted(path: Path, manifest: Mapping[str, Any]) -> str | None:
    """A sentence if a log is not what a manifest says of it; None if it is, or the manifest is older and does not."""
    found, known = whole_lines(path), manifest.get("log_lines")
    if "log" not in manifest or digest(json_lines(found)) == manifest["log"]:
        return None
    how = "some of its numbers have changed" if len(found) == known else f"it has {len(found)} lines, not {known}"
    return f"{path} is not what was written: {how} since the training ended, so its curves may be wrong"
