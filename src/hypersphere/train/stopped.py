"""The exception of a training that ends early on purpose."""

from __future__ import annotations

__all__ = ["Stopped"]


class Stopped(RuntimeError):
    """Training ended before its last step; the message says why and how to go on. ``code`` is the exit status.

    Of several processes the one of rank ``speaker`` shows the message.
    """

    def __init__(self, message: str, code: int = 1, speaker: int = 0) -> None:
        super().__init__(message)
        self.code, self.speaker = code, speaker
