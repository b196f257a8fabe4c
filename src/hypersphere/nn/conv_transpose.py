"""Decoupled and spherical transposed convolutions, as drop-in twins of ``torch.nn``'s.

A transposed convolution is the convolution of the zero-stuffed input with the flipped kernel. Its
patches hold the stuffed zeros, and ‖w‖ is the norm of the whole kernel of an output channel.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvTransposeNd

from ..functional.operators.decoupled import AngularRule, MagnitudeRule
from ..functional.operators.geometry import Geometry
from ..functional.operators.layers import decoupled_conv_transpose
from .layer import Decoupled, geometry_of

__all__ = [
    "DecoupledConvTranspose1d",
    "DecoupledConvTranspose2d",
    "DecoupledConvTranspose3d",
    "SphereConvTranspose1d",
    "SphereConvTranspose2d",
    "SphereConvTranspose3d",
]


class _DecoupledConvTranspose(Decoupled, _ConvTransposeNd):
    """f(w, x) = h(‖w‖, ‖x‖)·g(θ) on the patches of the zero-stuffed input.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, dilation,
            padding_mode, device, dtype: as in :class:`torch.nn.ConvTranspose2d`.
        bias, magnitude, angular, weighted, affine: as in :class:`DecoupledConv2d`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = False,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        *,
        magnitude: str | MagnitudeRule = "tanh",
        angular: str | AngularRule = "cosine",
        weighted: str | None = None,
        affine: bool = False,
    ) -> None:
        nd: Any = super()  # nn.ConvTransposeNd, next in line
        nd.__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._set_rules(out_channels, magnitude, angular, weighted, affine, device, dtype)

    def read(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Geometry] | None:
        if x.dim() != weight.dim() or x.shape[1] != weight.shape[0]:
            return None
        parts = (tuple(weight.shape[2:]), self.stride, self.padding, self.dilation, self.groups)
        return x, geometry_of(*parts, True, self.output_padding)

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        fused = self._one_step(input) if output_size is None else None
        if fused is not None:
            return fused
        spatial = self.weight.dim() - 2
        args: Any = (input, output_size, self.stride, self.padding, self.kernel_size, spatial, self.dilation)
        out = decoupled_conv_transpose(
            input,
            self.weight,
            None,
            self.stride,
            self.padding,  # type: ignore[arg-type]
            tuple(self._output_padding(*args)),
            self.groups,
            self.dilation,
            magnitude=self.magnitude,
            angular=self.angular,
            weighted=self.weighted,
        )
        return self._followed(self._rescale(out, -spatial - 1, self.bias))


class _SphereConvTranspose(_DecoupledConvTranspose):
    """g(θ) on the patches of the zero-stuffed input.

    Args are those of :class:`torch.nn.ConvTranspose2d` (``bias`` off by default), ``angular`` and
    ``affine`` as in :class:`SphereConv2d`.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = False,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        *,
        angular: str | AngularRule = "cosine",
        affine: bool = False,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
            padding_mode, device, dtype, magnitude="sphere", angular=angular, affine=affine,
        )  # fmt: skip


class DecoupledConvTranspose1d(_DecoupledConvTranspose, nn.ConvTranspose1d):
    pass


class DecoupledConvTranspose2d(_DecoupledConvTranspose, nn.ConvTranspose2d):
    pass


class DecoupledConvTranspose3d(_DecoupledConvTranspose, nn.ConvTranspose3d):
    pass


class SphereConvTranspose1d(_SphereConvTranspose, DecoupledConvTranspose1d):
    pass


class SphereConvTranspose2d(_SphereConvTranspose, DecoupledConvTranspose2d):
    pass


class SphereConvTranspose3d(_SphereConvTranspose, DecoupledConvTranspose3d):
    pass
