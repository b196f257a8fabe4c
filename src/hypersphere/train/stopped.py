"""The exception of a training that ends early on purpose."""

from __future__ import annotations

from typing import Any


class Stopped(RuntimeError):
    """Raised when training ends before its last step; the message says why and how to continue.

    Args:
        message: a line that says why training stopped and how to continue.
        code: exit status of the command line.
        speaker: rank of the process that shows the message, of several.
        result: what is recorded of a training that diverged, so that its loss or a weight was no longer finite: like
            ``result.json``, with the step as ``diverged`` in the place of a final accuracy. None where training ended
            for another reason.

    Example:
        >>> from hypersphere.train import Stopped
        >>> Stopped("the loss is NaN at step 12", code=2).code
        2
    """

    def __init__(self, message: str, code: int = 1, speaker: int = 0, result: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code, self.speaker, self.result = code, speaker, result
