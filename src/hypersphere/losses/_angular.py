"""The g of a head: checked, and with a curvature of each class where it is learned."""

from __future__ import annotations

from torch import Tensor, nn

from .. import angular as _angular
from ..angular import AngularLike
from ..functional.angular import angular as angular_from_cos
from ..functional.angular import angular_from_angle
from .head import ClassHead


class SigmoidOf:
    """The sigmoid g with the k of the classes at hand."""

    def __init__(self, k: Tensor) -> None:
        self.k = k

    def from_cos(self, c: Tensor) -> Tensor:
        return angular_from_cos(c, "sigmoid", self.k)

    def from_angle(self, theta: Tensor) -> Tensor:
        return angular_from_angle(theta, "sigmoid", self.k)


def checked_angular(value: str | AngularLike, head: ClassHead) -> AngularLike:
    """The g that a head keeps."""
    g = _angular.resolve(value)
    if isinstance(g, _angular.Angular):
        mine = g.for_layer(head.num_classes)
        g = g if mine is g else mine.to(head.weight)  # as in layers: what they learn has the dtype of their weights
        if g.closed_form() is not None:
            return g
    if isinstance(g, nn.Module) and any(True for _ in g.parameters()) and head.chunk is not None:
        raise ValueError(f"angular={g!r} has parameters that blocks of classes cannot reach: pass chunk=None too")
    return g
