"""What trainings of one process share of compiled code."""

from __future__ import annotations

import torch

from ..config import Config, material

_SHARE = 4
_kept: tuple[object, int] = (None, 0)


def forget_compiled(config: Config) -> None:
    """Forget what earlier trainings compiled, where it would count against this one.

    The compiler gives up on a function after eight versions of it. Seeds of the same settings share one version, so
    that the second takes no time to compile. A reset after a few of them is for settings whose seeds do not share.
    """
    global _kept
    settings = material(config)
    before, trainings = _kept
    if settings == before and trainings < _SHARE:
        _kept = settings, trainings + 1
        return
    torch.compiler.reset()
    _kept = settings, 1
