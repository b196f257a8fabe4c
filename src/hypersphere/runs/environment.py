"""What a result depends on beside its settings: versions, device, commit, command."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from .._core.version import __version__


def environment(device: torch.device) -> dict[str, Any]:
    """Describe the software and the device of a training.

    Args:
        device: device of the training, whose name is recorded.

    Returns:
        Versions of the libraries, the device by name, and the commit of the code, if it is in a repository.

    Example:
        >>> "torch" in hs.runs.environment(torch.device("cpu"))
        True
    """
    return {
        "hypersphere": __version__,
        "torch": torch.__version__,
        "triton": _version("triton"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu",
        "device_type": device.type,
        "threads": torch.get_num_threads(),
        "commit": _commit(),
        "command": shlex.join([_program(), *sys.argv[1:]]),
    }


def _program() -> str:
    name = Path(sys.argv[0]).name
    return "hypersphere" if name == "__main__.py" else name


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Of the repository this lies in; where the code travels without it, ``$HYPERSPHERE_COMMIT`` may say."""
    if "HYPERSPHERE_COMMIT" in os.environ:
        return os.environ["HYPERSPHERE_COMMIT"]
    return _described()


@functools.cache
def _described() -> str | None:
    """As git calls it, with a mark for changes; asked once, since the code of a process is that of its start."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
