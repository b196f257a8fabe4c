"""Which maps can turn a network from where it is: R = I at the start, orthogonal and near I after a small step."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from ._maps import Map, Orthogonal, module_of

_KNOWN = ("gram_schmidt", "lowdin", "cayley", "exponential")
_NOISE = 0.1


def check_from_identity(chosen: Map, raws: Iterable[Tensor], method: str) -> None:
    """A ValueError that says why a map cannot be that of an adapter, if it cannot.

    Args:
        chosen: The map; the built-in ones that are known to fit are not computed.
        raws: The parameters that its ``start`` gave for ``init="identity"``.
        method: Its name, for the message.
    """
    if isinstance(chosen, Orthogonal) and chosen.method in _KNOWN:
        return
    wrong = _without_matrices(chosen)
    for raw in raws:
        wrong = wrong or (None if raw.is_meta else _beside(chosen, raw.detach()))
    if wrong is not None:
        raise ValueError(f"method={method!r} of an adapter {wrong}: choose another map, or use hs.orthogonal.attach")


def _without_matrices(chosen: Map) -> str | None:
    if not chosen.linear:
        return "must make a matrix R, which this map does not"
    module = module_of(chosen)
    if module is not None and module.state_dict():
        return "has parameters or buffers of its own, which save_adapter does not keep"
    return None


@torch.no_grad()
def _beside(chosen: Map, raw: Tensor) -> str | None:
    """What is wrong with R at the start, or a small step beside it."""
    draw = torch.Generator().manual_seed(0)  # of its own: the caller's random numbers stay as they are
    noise = torch.randn(raw.shape, generator=draw, device="cpu").to(raw) * (_NOISE / math.sqrt(raw.shape[-1]))
    start, moved = chosen(raw), chosen(raw + noise)
    identity = torch.eye(start.shape[-1], dtype=start.dtype, device=start.device)
    if not bool((start - identity).abs().max() <= 1e-4):  # also if it is NaN
        return "must start at R = I, but this map does not give I for U = I"
    if not bool((moved.mT @ moved - identity).abs().max() <= 1e-3):
        return "must give orthogonal matrices, which this map does not"
    if not bool((moved - identity).abs().max() <= 0.5):
        return "must be continuous at U = I, but this map jumps away from R = I"
    return None
