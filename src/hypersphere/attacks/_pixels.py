"""Budgets in pixels, in the units of a normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .._core.checks import check_choice, check_positive
from ._inputs import Bounds, Number


@dataclass(frozen=True)
class Pixels:
    """Bounds and budgets for images normalised in one way; :func:`pixels` makes it.

    Args:
        scale: length of one step of a pixel in units of the network's inputs.
        clip: lowest and highest input, for ``clip=`` of an attack.

    Example:
        >>> pixels = hs.attacks.pixels("unit")
        >>> pixels.clip
        (0.0, 1.0)
    """

    scale: Number
    clip: Bounds

    def eps(self, value: float, peak: float = 255) -> Number:
        """Convert a distance between pixels to units of the network's inputs.

        Args:
            value: the distance in pixels, e.g. 8 of 0..255.
            peak: the highest pixel, 255 or 1.

        Returns:
            ε for ``eps=`` of an attack, a number or one per channel.
        """
        check_positive("value", value, zero=True)
        return self.scale * (value * 255 / check_positive("peak", peak))


def pixels(
    kind: str | None = "symmetric",
    *,
    mean: Tensor | Sequence[float] | None = None,
    std: Tensor | Sequence[float] | None = None,
    device: torch.device | str | None = None,
) -> Pixels:
    """Return bounds and budgets in units of a network's inputs.

    Args:
        kind: the normalisation given to :func:`hypersphere.data.normalize`. ``"symmetric"``: inputs (x − 127.5)/128, so
            that 8 of 255 is 0.0625; ``"unit"``: x/255; ``"standard"``: (x/255 − mean)/std; ``"mean"``: x/255 − mean;
            None: the bytes themselves.
        mean: mean of each channel in [0, 1], for ``"standard"`` and ``"mean"``.
        std: standard deviation of each channel, for ``"standard"``.
        device: device of the numbers per channel, which are tensors ``(C, 1, 1)``.

    Returns:
        ``clip`` and ``eps`` for the attacks.

    Raises:
        ValueError: If ``kind`` is unknown, or ``"standard"`` lacks ``mean`` or a positive ``std``.

    Example:
        >>> pixels = hs.attacks.pixels("symmetric")
        >>> pixels.eps(8)
        0.0625
    """
    if kind is None:
        return Pixels(1.0, (0.0, 255.0))
    check_choice("kind", kind, ("symmetric", "unit", "standard", "mean"))
    if kind == "symmetric":
        return Pixels(1 / 128, (-127.5 / 128, 127.5 / 128))
    if kind == "unit":
        return Pixels(1 / 255, (0.0, 1.0))
    given = (mean, std if kind == "standard" else 1.0)
    if any(number is None for number in given):
        needs = "mean= and std=" if kind == "standard" else "mean="
        raise ValueError(f"{kind=} needs {needs} of the training images, e.g. dataset.mean, dataset.std")
    centre, spread = (torch.as_tensor(number, dtype=torch.float64).view(-1, 1, 1) for number in given)
    if len(spread) not in (1, len(centre)):
        raise ValueError(f"mean= has {len(centre)} channels, std= {len(spread)}: pass one number of each for a channel")
    if not bool((spread > 0).all() and (centre / spread).isfinite().all()):
        raise ValueError(f"mean={mean} and std={std} must be finite, and std must be positive in every channel")
    scale, low, high = (
        value.float().to(device) for value in (1 / (255 * spread), -centre / spread, (1 - centre) / spread)
    )
    return Pixels(scale, (low, high))
