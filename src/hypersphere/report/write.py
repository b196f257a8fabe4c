"""``write(runs)``: the report as a file, whole or not at all, and never over somebody else's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from .._core.trust import trust as trust_modules
from ..runs.files import write_bytes
from .page import GENERATOR, build
from .subject import Subject, subjects


def write(
    runs: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    *,
    root: str | None = None,
    device: torch.device | str = "cpu",
    data: bool = True,
    force: bool = False,
    trust: str | Sequence[str] | None = None,
) -> Path:
    """Write the report of one run or the comparison of several.

    Args:
        runs: run folders, folders of single seeds in them, or folders that hold runs, at any depth.
        out: the file; None is ``report.html`` in the run folder, or beside the run folders if there are several.
        root: folder of the data, if it is not where it was at training.
        device: where the networks compute features of their test splits.
        data: False writes it from the logs alone, without the network and its test split.
        force: overwrite a file that is not a report.
        trust: modules whose code the settings of the runs may name by ``module:Name``.

    Returns:
        The path of the file that was written.

    Raises:
        ValueError: If there is no run, or the file exists and is not a report.

    Example:
        >>> from hypersphere import report
        >>> report.write("runs/digits", "page.html", data=False).name
        'page.html'
    """
    trust_modules(trust)
    named = [runs] if isinstance(runs, str | Path) else list(runs)
    found = subjects([run for one in named for run in runs_in(one)])
    whole = Path(named[0]).expanduser() if len(named) == 1 and runs_in(named[0]) != [named[0]] else None
    path = (_beside(found) if whole is None else whole / "report.html") if out is None else Path(out).expanduser()
    _check(path, force)
    page = build(found, root=root, device=device, data=data)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, page.encode())
    return path


def runs_in(path: str | Path) -> list[str | Path]:
    """The runs that have begun within a folder that is none itself, in alphabetical order; else the path as it is."""
    folder = Path(path).expanduser()
    if not folder.is_dir() or (folder / "config.json").exists() or folder.name.startswith("seed-"):
        return [path]
    found = sorted(file.parent for file in folder.rglob("config.json") if any(file.parent.glob("seed-[0-9]*/*")))
    return [*found] or [path]


def _beside(found: Sequence[Subject]) -> Path:
    if len(found) == 1:
        return found[0].run.path / "report.html"
    return Path(os.path.commonpath([one.run.path.resolve().parent for one in found])) / "report.html"


def _check(path: Path, force: bool) -> None:
    """Before the minutes of work: can the file be written, and may it be?"""
    if path.is_dir():
        raise ValueError(f"--out {path} is a folder: name a file in it, e.g. {path / 'report.html'}")
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise OSError(f"{path} cannot be written, {folder} does not allow it: choose another --out")
    if path.exists() and not force:
        with open(path, "rb") as file:
            if GENERATOR.encode() not in file.read(2048):
                raise ValueError(f"{path} exists and is not a report: choose another --out, or --force to replace it")
