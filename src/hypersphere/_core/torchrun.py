"""What torchrun tells a process by its environment; one process alone is the first of one."""

from __future__ import annotations

import os


def world() -> int:
    """How many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """The number of this process among them, from 0. The first writes and speaks for all."""
    return int(os.environ.get("RANK", "0"))
