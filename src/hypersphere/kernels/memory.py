"""One buffer for the small things of a layer, so that they cost one allocation: sums, tables, maps."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from .layout import sums_size
from .spec import Fields


class Pieces:
    """Where pieces of so many float32 numbers lie in a buffer of ``size``, each at a multiple of 16 bytes.

    A piece of size 0 does not exist: there is None in its place.
    """

    __slots__ = ("offsets", "places", "size")

    def __init__(self, *sizes: int) -> None:
        self.places: list[tuple[int, int] | None] = []
        end = 0
        for size in sizes:
            self.places.append((end, end + size) if size else None)
            end += -(-size // 4) * 4
        self.size = end
        self.offsets = [None if place is None else 4 * place[0] for place in self.places]

    def views(self, memory: Tensor) -> list[Any]:
        """Every piece of the buffer as a tensor."""
        return [None if place is None else memory[place[0] : place[1]] for place in self.places]

    def at(self, address: int) -> list[Any]:
        """The address of every piece, if the buffer is at this one."""
        return [None if offset is None else address + offset for offset in self.offsets]


def kept_pieces(f: Fields, shape: Any) -> Pieces:
    """What a layer with outputs of this shape keeps: sums (float64), table, 1/‖w‖, r, s, norms, radius."""
    channels, maps = shape[1], shape[0] * f.window.groups * math.prod(shape[2:])
    other = 0 if f.is_sphere else maps
    has_s, radius = 0 if f.angular == "cosine" else other, 0 if f.is_sphere else 1
    return Pieces(
        2 * sums_size(channels), 4 * channels if f.norm == "train" else 0, channels, maps, has_s, other, radius
    )
