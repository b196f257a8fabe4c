"""A device by its name, tried before anything is put on it."""

from __future__ import annotations

import torch


def usable_device(device: torch.device | str, compute: bool = True, argument: str = "device") -> torch.device:
    """Return a device, or raise an error that says why it cannot be used here.

    Args:
        device: name of the device, such as ``"cpu"`` or ``"cuda:1"``.
        compute: whether it must compute, which ``meta`` cannot.
        argument: name of the argument for the error.

    Returns:
        The device, after a tensor could be made on it.

    Raises:
        ValueError: If the device does not exist here.

    Example:
        >>> hs.runs.usable_device("cpu")
        device(type='cpu')
    """
    try:
        place = torch.device(device)
        probe = torch.zeros((), device=place)
        if compute:
            probe.item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        hint = "; a GPU of NVIDIA or AMD is called cuda" if str(device).lower().startswith("gpu") else ""
        raise ValueError(f"{argument}={str(device)!r} cannot be used here: {reason}{hint}") from error
    return place
