"""The largest and the smallest entry, for code that is differentiated.

``amax`` and ``amin`` share a gradient among all entries that equal the result. A compiler that computes the entries a
second time, at another precision, finds none that does, and divides by zero: NaN in the gradients of PointNet under
bfloat16 autocast (https://github.com/pytorch/pytorch/issues/195214). ``max`` and ``min`` keep the position instead.
"""

from __future__ import annotations

from torch import Tensor


def largest(x: Tensor, dim: int) -> Tensor:
    """The largest entry along a dimension; its gradient goes to one entry."""
    return x.max(dim).values


def smallest(x: Tensor, dim: int) -> Tensor:
    """The smallest entry along a dimension; its gradient goes to one entry."""
    return x.min(dim).values
