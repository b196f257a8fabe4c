"""The ways to treat pixels that have a name: for the settings, which know no torch, and for what does it."""

from __future__ import annotations

from typing import NamedTuple

PADDINGS = ("constant", "reflect", "symmetric")
"""What may lie outside an image that is padded and cropped."""

MEASURED = ("standard", "mean")
"""The normalisations that need the mean of the training images."""

NORMALIZATIONS = ("symmetric", "unit", *MEASURED)
"""How bytes become the inputs of a network."""


class Normalized(NamedTuple):
    """How the images were normalised that a network was trained on; a loaded network has it as ``normalized``.

    Attributes:
        kind: One of :data:`NORMALIZATIONS`.
        mean: Mean of the training pixels in [0, 1], a number a channel; None if it does not count or is not known.
        std: Their standard deviation, likewise.
    """

    kind: str
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
