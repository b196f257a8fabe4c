"""Decoupled and spherical fully connected layers (paper sec. 2.4), as drop-in twins of ``torch.nn.Linear``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..functional.operators.decoupled import AngularRule, MagnitudeRule
from ..functional.operators.geometry import Geometry
from ..functional.operators.layers import as_rows, decoupled_linear
from .layer import Decoupled, as_node

_ROWS = Geometry(())


class DecoupledLinear(Decoupled, nn.Linear):
    """f(w, x) = h(‖w‖, ‖x‖)·g(θ) of each row w of the weight (thesis 4.1): the twin of :class:`torch.nn.Linear`.

    Args:
        in_features: number of entries of an input vector, the last dimension of the input.
        out_features: number of outputs: rows of the weight.
        bias: add a learned number per output. Off by default: a BatchNorm usually follows.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Norms and angles are computed in at least
            float32.
        magnitude: h, a name or an object of :mod:`hypersphere.magnitude`.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        weighted: how ‖w‖ enters: ``"linear"``, ``"product"`` or ``"separate"`` (thesis sec. 4.3.5); None ignores it.
        affine: rescale the output to β·F + γ per output, both learned (SphereNorm, paper sec. 2.5).

    Shape:
        - Input: (..., in_features).
        - Output: (..., out_features).

    Example:
        >>> hs.nn.DecoupledLinear(8, 16, magnitude="tanh")(torch.randn(2, 8)).shape
        torch.Size([2, 16])
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
        self._set_rules(out_features, magnitude, angular, weighted, affine)

    def read(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Geometry] | None:
        if x.dim() == 0 or x.shape[-1] != weight.shape[1]:
            return None
        return as_rows(x), _ROWS

    def forward(self, input: Tensor) -> Tensor:
        out: Any = self._one_step(input)
        if out is not None:
            return out
        out = decoupled_linear(
            input, self.weight, magnitude=self.magnitude, angular=self.angular, weighted=self.weighted
        )
        return self._followed(self._rescale(out, -1, self.bias))


class SphereLinear(DecoupledLinear):
    """g(θ) of each row of the weight and the input: the twin of :class:`torch.nn.Linear`.

    Args:
        in_features: number of entries of an input vector, the last dimension of the input.
        out_features: number of outputs: rows of the weight.
        bias: add a learned number per output. Off by default: a BatchNorm usually follows.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Norms and angles are computed in at least
            float32.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        affine: rescale the output to β·F + γ per output, both learned (SphereNorm, paper sec. 2.5).

    Shape:
        - Input: (..., in_features).
        - Output: (..., out_features).

    Example:
        >>> hs.nn.SphereLinear(8, 16, angular="linear")(torch.randn(2, 8)).shape
        torch.Size([2, 16])
    """

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

    It is the twin of ``transformers.pytorch_utils.Conv1D``: the same parameters under the same names.

    Args:
        in_features: number of entries of an input vector, the last dimension of the input.
        out_features: number of outputs: columns of the weight.
        bias: add a learned number per output. On by default, as in the layer that it replaces.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Norms and angles are computed in at least
            float32.
        magnitude: h, a name or an object of :mod:`hypersphere.magnitude`.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        weighted: how ‖w‖ enters: ``"linear"``, ``"product"`` or ``"separate"`` (thesis sec. 4.3.5); None ignores it.
        affine: rescale the output to β·F + γ per output, both learned (SphereNorm, paper sec. 2.5).

    Shape:
        - Input: (..., in_features).
        - Output: (..., out_features).

    Example:
        >>> hs.nn.DecoupledTransposedLinear(8, 16)(torch.randn(2, 8)).shape
        torch.Size([2, 16])
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
        self._set_rules(out_features, magnitude, angular, weighted, affine)

    def reset_parameters(self) -> None:
        """Draw the weight from N(0, 0.02²) and zero the bias, as GPT-2 does; h and g go back to their start."""
        nn.init.normal_(self.weight, std=0.02)
        if self.bias is not None:
            nn.init.zeros_(self.bias)
        self._reset_rules()

    def forward(self, input: Tensor) -> Tensor:
        """Apply the operator to the last dimension.

        Args:
            input: vectors along the last dimension, (..., in_features).

        Returns:
            The outputs, (..., out_features).
        """
        node: Any = as_node(self, input)
        if node is not None:
            return node
        out = decoupled_linear(
            input, self.weight.mT, magnitude=self.magnitude, angular=self.angular, weighted=self.weighted
        )
        return self._rescale(out, -1, self.bias)

    def extra_repr(self) -> str:
        size = f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        return size + self._rules_repr()


class SphereTransposedLinear(DecoupledTransposedLinear):
    """g(θ) of each column of the weight and the input, with the weight as GPT-2's layers keep it.

    It is the twin of ``transformers.pytorch_utils.Conv1D``: the same parameters under the same names.

    Args:
        in_features: number of entries of an input vector, the last dimension of the input.
        out_features: number of outputs: columns of the weight.
        bias: add a learned number per output. On by default, as in the layer that it replaces.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Norms and angles are computed in at least
            float32.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        affine: rescale the output to β·F + γ per output, both learned (SphereNorm, paper sec. 2.5).

    Shape:
        - Input: (..., in_features).
        - Output: (..., out_features).

    Example:
        >>> hs.nn.SphereTransposedLinear(8, 16)(torch.randn(2, 8)).shape
        torch.Size([2, 16])
    """

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
