"""What a network must know of its data: classes and sizes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Facts:
    """What a network must know of the data.

    Attributes:
        num_classes: Number of classes of the training data.
        in_channels: Channels of images; None for other data.
        image_size: Height and width of images; None for other data.
        in_features: Number of entries of a sample that is not an image, or of an image that the network takes as one
            row; None for other images.
        classes: Names of the classes; empty if they have none.
        resized: How images were brought to ``image_size``: ``"cover"`` (scaled to cover it, the middle cut out),
            ``"window"`` (squeezed to a square of ``data.resize`` pixels, the middle cut out), or None if they had it.
        mean: Mean of the training pixels in [0, 1] for each channel, if ``data.normalize`` uses it; else None.
        std: Standard deviation of the training pixels, given together with ``mean``; else None.

    Example:
        >>> hs.runs.Facts(num_classes=10, in_channels=3, image_size=(32, 32)).image_size
        (32, 32)
    """

    num_classes: int
    in_channels: int | None = None
    image_size: tuple[int, int] | None = None
    in_features: int | None = None
    classes: tuple[str, ...] = ()
    resized: str | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def is_row_of(self, images: Facts) -> bool:
        """Whether a network with these facts takes each image as one row of numbers, e.g. 64 for 1×8×8 pixels.

        Args:
            images: the facts of the data that were found.

        Returns:
            True if these facts have ``in_features`` of that number and no image size, as in a loop of your own.
        """
        if images.image_size is None or self.image_size is not None or images.num_classes != self.num_classes:
            return False
        height, width = images.image_size
        return self.in_features == (images.in_channels or 1) * height * width


def facts_from(values: Any, path: Path) -> Facts:
    """:class:`Facts` of JSON values; ``path`` is named in errors."""
    try:
        found = {name: some and tuple(some) for name in ("image_size", "mean", "std") if (some := values.get(name))}
        facts = Facts(**{**values, **found, "classes": tuple(values.get("classes") or ())})
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{path} holds no facts of a data set, or those of another version: {error}") from error
    counts = [(name, getattr(facts, name)) for name in ("num_classes", "in_channels", "in_features")]
    for name, count in (*counts, *(("image_size", side) for side in facts.image_size or ())):
        missing = count is None and name in ("in_channels", "in_features")
        if not missing and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise ValueError(f"{path} is damaged: {name} is {count!r}, not a whole number above 0")
    if facts.image_size is not None and len(facts.image_size) != 2:
        raise ValueError(f"{path} is damaged: image_size is {facts.image_size}, not height and width")
    if facts.resized not in (None, "cover", "window"):
        raise ValueError(f"{path} is damaged: resized is {facts.resized!r}, not 'cover', 'window' or null")
    for name, moments in (("mean", facts.mean), ("std", facts.std)):
        numbers = moments is None or all(type(part) in (int, float) for part in moments)
        if not numbers or (moments is not None and len(moments) != facts.in_channels):
            raise ValueError(f"{path} is damaged: {name} is {moments}, not a number for each channel")
    return facts
