"""Errors that say that memory ran out: PyTorch has a class of its own for a GPU, but not for a CPU."""

from __future__ import annotations

import re

import torch

_ASKED = re.compile(r"allocate ([0-9][0-9.]*) ?(bytes|[KMGT]iB)", re.IGNORECASE)
_WORDS = ("out of memory", "allocate memory", "not enough memory", "alloc_failed")


def ran_out(error: BaseException) -> bool:
    """Whether memory ran out, of a GPU or of the host."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _WORDS)


def asked_for(error: BaseException) -> str:
    """How much was asked for, in parentheses and after a space; empty where the error does not say."""
    found = _ASKED.search(str(error))
    if found is None:
        return ""
    amount = f"{float(found[1]) / 2**30:.2f} GiB" if found[2].lower() == "bytes" else f"{found[1]} {found[2]}"
    return f" (it asked for {amount} more)"
