"""The standard output whose reader is gone."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def hush() -> None:
    """Let the rest of the standard output go nowhere, what is in its buffer too."""
    with suppress(OSError, ValueError, AttributeError):  # a replaced stdout may not have a file descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
