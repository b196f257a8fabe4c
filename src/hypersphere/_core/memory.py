"""Errors that say that memory ran out: PyTorch has a class of its own for a GPU, but not for a CPU."""

from __future__ import annotations

import torch

_WORDS = ("out of memory", "allocate memory", "not enough memory", "alloc_failed")


def ran_out(error: BaseException) -> bool:
    """Whether memory ran out, of a GPU or of the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _WORDS)
