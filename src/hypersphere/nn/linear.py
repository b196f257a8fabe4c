"""Decoupled and spherical fully connected layers (paper sec. 2.4), as drop-in twins of ``torch.nn.Linear``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..functional.operators.decoupled import AngularRule, MagnitudeRule
from ..functional.operators.geometry import Geometry
from ..functional.operators.layers import decoupled_linear
from .layer import Decoupled, geometry_of

__all__ = ["DecoupledLinear", "DecoupledTransposedLinear", "SphereLinear", "SphereTransposedLinear"]


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

    def read(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Geometry] | None:
        if x.dim() == 0 or x.shape[-1] != weight.shape[1]:
            return None
        return (x if x.dim() == 2 else x.reshape(-1, x.shape[-1])), geometry_of((), (), (), (), 1, False, ())

    def forward(self, input: Tensor) -> Tensor:
        fused = self._one_step(input)
        if fused is not None:
            return fused
        out = decoupled_linear(
            input, self.weight, magnitude=self.magnitude, angular=self.angular, weighted=self.weighted
        )
        return self._followed(self._rescale(out, -1, self.bias))


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


class DecoupledTransposedLinear(Decoupled, nn.Module):
    """:class:`DecoupledLinear` whose weight is (in_features, out_features), as GPT-2's layers keep it.

    The twin of ``transformers.pytorch_utils.Conv1D``: the same parameters under the same names.

    Args:
        in_features, out_features: Sizes of input and output.
        bias, device, dtype, magnitude, angular, weighted, affine: As in :class:`DecoupledLinear`.

    Shape:
        Input: (..., in_features). Output: (..., out_features).
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        magnitude: str | MagnitudeRule = "tanh",
        angular: str | AngularRule = "cosine",
        weighted: str | None = None,
        affine: bool = False,
    ) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = in_features, out_features
        self.weight = nn.Parameter(torch.empty(in_features, out_features, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype)) if bias else None
        nn.init.normal_(self.weight, std=0.02)
        self._set_rules(out_features, magnitude, angular, weighted, affine, device, dtype)

    def reset_parameters(self) -> None:
        """Draw the weight from N(0, 0.02²) and zero the bias, as GPT-2 does; h and g go back to their start."""
        nn.init.normal_(self.weight, std=0.02)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        self._reset_rules()

    def forward(self, input: Tensor) -> Tensor:
        out = decoupled_linear(
            input, self.weight.mT, magnitude=self.magnitude, angular=self.angular, weighted=self.weighted
        )
        return self._rescale(out, -1, self.bias)

    def extra_repr(self) -> str:
        size = f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        return size + self._rules_repr()


class SphereTransposedLinear(DecoupledTransposedLinear):
    """g(θ) of each column of the weight and the input: see :class:`DecoupledTransposedLinear`."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        angular: str | AngularRule = "cosine",
        affine: bool = False,
    ) -> None:
        super().__init__(
            in_features, out_features, bias, device, dtype, magnitude="sphere", angular=angular, affine=affine
        )
