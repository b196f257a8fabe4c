"""A device by its name, tried before anything is put on it."""

from __future__ import annotations

import torch

__all__ = ["usable_device"]


def usable_device(device: torch.device | str, compute: bool = True, argument: str = "device") -> torch.device:
    """The device of that name, or an error that says why it cannot be used here (to ``compute``: not ``meta``)."""
    try:
        place = torch.device(device)
        probe = torch.zeros((), device=place)
        if compute:
            probe.item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"{argument}={str(device)!r} cannot be used here: {reason}") from error
    return place
