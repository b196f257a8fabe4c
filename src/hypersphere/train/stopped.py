"""The exception of a training that ends early on purpose."""

from __future__ import annotations


class Stopped(RuntimeError):
    """Raised when training ends before its last step; the message says why and how to continue.

    Args:
        message: a line that says why training stopped and how to continue.
        code: exit status of the command line.
        speaker: rank of the process that shows the message, of several.

    Example:
        >>> from hypersphere.train import Stopped
        >>> Stopped("the loss is NaN at step 12", code=2).code
        2
    """

    def __init__(self, message: str, code: int = 1, speaker: int = 0) -> None:
        super().__init__(message)
        self.code, self.speaker = code, speaker
