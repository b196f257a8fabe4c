"""Fused Triton kernels behind the operators on a GPU: patch norms, epilogues, whole blocks with BatchNorm.

Other rooms name a module that imports Triton only where its kernels run: ``kernels.block`` is imported then.
"""

from typing import TYPE_CHECKING

from .._core.late import late
from .launch import FAMILIES, LAUNCHES, enable, interpreted, rehearsed, usable

if TYPE_CHECKING:
    from . import batch, block, criterion, energy, heads, pool, rows, sets, target  # noqa: F401

__all__ = ["FAMILIES", "LAUNCHES", "enable", "interpreted", "rehearsed", "usable"]

__getattr__ = late(__name__)
