"""The ways to treat pixels that have a name: for the settings, which know no torch, and for what does it."""

from __future__ import annotations

from typing import Any, NamedTuple

PADDINGS = ("constant", "reflect", "symmetric")
"""What may lie outside an image that is padded and cropped."""

MEASURED = ("standard", "mean")
"""The normalisations that need the mean of the training images."""

NORMALIZATIONS = ("symmetric", "unit", *MEASURED)
"""How bytes become the inputs of a network."""


class Normalized(NamedTuple):
    """How the images were normalised that a network was trained on.

    Attributes:
        kind: One of :data:`NORMALIZATIONS`.
        mean: Mean of the training pixels in [0, 1], a number a channel; None if it does not count or is not known.
        std: Their standard deviation, likewise.
    """

    kind: str
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None


def remember_normalized(network: Any, how: Normalized) -> None:
    """Let a loaded network and its copies say how its images were normalised; none of its own attributes changes."""
    object.__setattr__(network, _NAME, how)


def trained_normalized(network: Any) -> Normalized | None:
    """How the images of a loaded network were normalised; None if it was not loaded, or that is not known."""
    known = getattr(network, _NAME, None)
    return known if isinstance(known, Normalized) else None


_NAME = "_hypersphere_normalized"
