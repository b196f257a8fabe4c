"""Text for the standard output: tables in columns, and silence where its reader is gone."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress


def aligned(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Rows of cells as lines: the first columns flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        [cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]
        for row in rows
    )
    return ["  ".join(line).rstrip() for line in lines]


def hush() -> None:
    """Let the rest of the standard output go nowhere, what is in its buffer too."""
    with suppress(OSError, ValueError, AttributeError):  # a replaced stdout may not have a file descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
