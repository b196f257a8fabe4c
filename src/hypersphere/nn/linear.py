"""Decoupled and spherical fully connected layers (paper sec. 2.4), as drop-in twins of ``torch.nn.Linear``."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ..functional.operators.decoupled import AngularRule, MagnitudeRule
from ..functional.operators.layers import decoupled_linear
from .layer import Decoupled

__all__ = ["DecoupledLinear", "SphereLinear"]


class DecoupledLinear(Decoupled, nn.Linear):
    """f(w, x) = h(‖w‖, ‖x‖)·g(θ) of each row of the weight.

    Args:
        in_features, out_features, device, dtype: as in :class:`torch.nn.Linear`.
        bias, magnitude, angular, weighted, affine: as in :class:`DecoupledConv2d`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        magnitude: str | MagnitudeRule = "tanh",
        angular: str | AngularRule = "cosine",
        weighted: str | None = None,
        affine: bool = False,
    ) -> None:
        nn.Linear.__init__(self, in_features, out_features, bias, device, dtype)
        self._set_rules(out_features, magnitude, angular, weighted, affine, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        out = decoupled_linear(
            input, self.weight, magnitude=self.magnitude, angular=self.angular, weighted=self.weighted
        )
        return self._rescale(out, -1, self.bias)


class SphereLinear(DecoupledLinear):
    """g(θ) of each row of the weight and the input: arguments as in :class:`SphereConv2d`."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        angular: str | AngularRule = "cosine",
        affine: bool = False,
    ) -> None:
        super().__init__(
            in_features, out_features, bias, device, dtype, magnitude="sphere", angular=angular, affine=affine
        )
