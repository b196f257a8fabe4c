"""Decoupled convolutions and SphereConv in 1, 2 and 3 dimensions, as drop-in twins of ``torch.nn``'s."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from .._core.modes import remembered
from ..functional.operators.decoupled import AngularRule, MagnitudeRule
from ..functional.operators.geometry import Geometry, check_window
from ..functional.operators.layers import decoupled_conv
from .layer import Decoupled


def _geometry(shape: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Geometry | None:
    """How a convolution with a weight of this shape reads its input; None where its borders differ."""
    kernel = tuple(shape[2:])
    if padding == "valid":
        padding = (0,) * len(kernel)
    elif padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        if any(total % 2 for total in totals):
            return None
        padding = tuple(total // 2 for total in totals)
    return Geometry(kernel, stride, padding, dilation, groups, False, ())


class _DecoupledConv(Decoupled, _ConvNd):
    """f(w, x) = h(‖w‖, ‖x‖)·g(θ) on patches (thesis sec. 4.3), in any number of dimensions."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | str | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = False,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        *,
        magnitude: str | MagnitudeRule = "tanh",
        angular: str | AngularRule = "cosine",
        weighted: str | None = None,
        affine: bool = False,
    ) -> None:
        check_window(kernel_size=kernel_size, stride=stride, dilation=dilation)
        nd: Any = super()  # nn.ConvNd, next in line
        nd.__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )
        self._set_rules(out_channels, magnitude, angular, weighted, affine)

    def _padded(self, x: Tensor) -> tuple[Tensor, Any]:
        """x with a border that is not of zeros, and the padding that is left to do."""
        if self.padding_mode == "zeros":
            return x, self.padding
        return F.pad(x, self._reversed_padding_repeated_twice, mode=self.padding_mode), "valid"

    def read(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Geometry] | None:
        shape = weight.shape
        if x.dim() != len(shape) or x.shape[1] != shape[1] * self.groups:
            return None
        x, padding = self._padded(x)
        geometry = remembered(_geometry, shape, self.stride, padding, self.dilation, self.groups)
        return None if geometry is None else (x, geometry)

    def forward(self, input: Tensor) -> Tensor:
        out: Any = self._one_step(input)
        if out is not None:
            return out
        input, padding = self._padded(input)
        out = decoupled_conv(
            input,
            self.weight,
            None,
            self.stride,
            padding,
            self.dilation,
            self.groups,
            magnitude=self.magnitude,
            angular=self.angular,
            weighted=self.weighted,
        )
        return self._followed(self._rescale(out, -self.weight.dim() + 1, self.bias))


class _SphereConv(_DecoupledConv):
    """g(θ) on patches: SphereConv (paper eq. 1-4), in any number of dimensions."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | str | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = False,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
        *,
        angular: str | AngularRule = "cosine",
        affine: bool = False,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device,
            dtype, magnitude="sphere", angular=angular, affine=affine,
        )  # fmt: skip


class DecoupledConv1d(_DecoupledConv, nn.Conv1d):
    """f(w, x) = h(‖w‖, ‖x‖)·g(θ) on patches (thesis sec. 4.3): the twin of :class:`torch.nn.Conv1d`.

    Args:
        in_channels: number of channels of the input; the patches have in_channels/groups · kernel entries.
        out_channels: channels of the output: the number of kernels.
        kernel_size: size of the window, a number or one per dimension.
        stride: step of the window, one number or one per dimension; larger steps give smaller outputs.
        padding: entries added on each side, a number or one per dimension, or ``"same"`` or ``"valid"``.
        dilation: distance between the entries of a patch.
        groups: number of groups of channels that are convolved separately.
        bias: add a learned number per channel. Off by default: a BatchNorm usually follows.
        padding_mode: what is added at the border: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Norms and angles are computed in at least
            float32.
        magnitude: h, a name or an object of :mod:`hypersphere.magnitude`.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        weighted: how ‖w‖ enters: ``"linear"``, ``"product"`` or ``"separate"`` (thesis sec. 4.3.5); None ignores it.
        affine: rescale the output to β·F + γ per channel, both learned (SphereNorm, paper sec. 2.5).

    Shape:
        - Input: (N, C_in, L).
        - Output: (N, C_out, L_out), sizes as in torch.

    Example:
        >>> layer = hs.nn.DecoupledConv1d(3, 16, 3, padding=1, magnitude="tanh")
        >>> layer(torch.randn(2, 3, 8)).shape
        torch.Size([2, 16, 8])
    """


class DecoupledConv2d(_DecoupledConv, nn.Conv2d):
    """f(w, x) = h(‖w‖, ‖x‖)·g(θ) on patches (thesis sec. 4.3): the twin of :class:`torch.nn.Conv2d`.

    Args:
        in_channels: number of channels of the input; the patches have in_channels/groups · kernel entries.
        out_channels: channels of the output: the number of kernels.
        kernel_size: size of the window, a number or one per dimension.
        stride: step of the window, one number or one per dimension; larger steps give smaller outputs.
        padding: entries added on each side, a number or one per dimension, or ``"same"`` or ``"valid"``.
        dilation: distance between the entries of a patch.
        groups: number of groups of channels that are convolved separately.
        bias: add a learned number per channel. Off by default: a BatchNorm usually follows.
        padding_mode: what is added at the border: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Norms and angles are computed in at least
            float32.
        magnitude: h, a name or an object of :mod:`hypersphere.magnitude`.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        weighted: how ‖w‖ enters: ``"linear"``, ``"product"`` or ``"separate"`` (thesis sec. 4.3.5); None ignores it.
        affine: rescale the output to β·F + γ per channel, both learned (SphereNorm, paper sec. 2.5).

    Shape:
        - Input: (N, C_in, H, W).
        - Output: (N, C_out, H_out, W_out), sizes as in torch.

    Example:
        >>> layer = hs.nn.DecoupledConv2d(3, 16, 3, padding=1, magnitude="tanh")
        >>> layer(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 16, 8, 8])
    """


class DecoupledConv3d(_DecoupledConv, nn.Conv3d):
    """f(w, x) = h(‖w‖, ‖x‖)·g(θ) on patches (thesis sec. 4.3): the twin of :class:`torch.nn.Conv3d`.

    Args:
        in_channels: number of channels of the input; the patches have in_channels/groups · kernel entries.
        out_channels: channels of the output: the number of kernels.
        kernel_size: size of the window, a number or one per dimension.
        stride: step of the window, one number or one per dimension; larger steps give smaller outputs.
        padding: entries added on each side, a number or one per dimension, or ``"same"`` or ``"valid"``.
        dilation: distance between the entries of a patch.
        groups: number of groups of channels that are convolved separately.
        bias: add a learned number per channel. Off by default: a BatchNorm usually follows.
        padding_mode: what is added at the border: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Norms and angles are computed in at least
            float32.
        magnitude: h, a name or an object of :mod:`hypersphere.magnitude`.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        weighted: how ‖w‖ enters: ``"linear"``, ``"product"`` or ``"separate"`` (thesis sec. 4.3.5); None ignores it.
        affine: rescale the output to β·F + γ per channel, both learned (SphereNorm, paper sec. 2.5).

    Shape:
        - Input: (N, C_in, D, H, W).
        - Output: (N, C_out, D_out, H_out, W_out), sizes as in torch.

    Example:
        >>> layer = hs.nn.DecoupledConv3d(3, 16, 3, padding=1, magnitude="tanh")
        >>> layer(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 16, 8, 8, 8])
    """


class SphereConv1d(_SphereConv, DecoupledConv1d):
    """g(θ) on patches (SphereConv, paper eq. 1-4): the twin of :class:`torch.nn.Conv1d`.

    Args:
        in_channels: number of channels of the input; the patches have in_channels/groups · kernel entries.
        out_channels: channels of the output: the number of kernels.
        kernel_size: size of the window, a number or one per dimension.
        stride: step of the window, one number or one per dimension; larger steps give smaller outputs.
        padding: entries added on each side, a number or one per dimension, or ``"same"`` or ``"valid"``.
        dilation: distance between the entries of a patch.
        groups: number of groups of channels that are convolved separately.
        bias: add a learned number per channel. Off by default: a BatchNorm usually follows.
        padding_mode: what is added at the border: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Norms and angles are computed in at least
            float32.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        affine: rescale the output to β·F + γ per channel, both learned (SphereNorm, paper sec. 2.5).

    Shape:
        - Input: (N, C_in, L).
        - Output: (N, C_out, L_out), sizes as in torch.

    Example:
        >>> layer = hs.nn.SphereConv1d(3, 16, 3, padding=1)
        >>> layer(torch.randn(2, 3, 8)).shape
        torch.Size([2, 16, 8])
    """


class SphereConv2d(_SphereConv, DecoupledConv2d):
    """g(θ) on patches (SphereConv, paper eq. 1-4): the twin of :class:`torch.nn.Conv2d`.

    Args:
        in_channels: number of channels of the input; the patches have in_channels/groups · kernel entries.
        out_channels: channels of the output: the number of kernels.
        kernel_size: size of the window, a number or one per dimension.
        stride: step of the window, one number or one per dimension; larger steps give smaller outputs.
        padding: entries added on each side, a number or one per dimension, or ``"same"`` or ``"valid"``.
        dilation: distance between the entries of a patch.
        groups: number of groups of channels that are convolved separately.
        bias: add a learned number per channel. Off by default: a BatchNorm usually follows.
        padding_mode: what is added at the border: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Norms and angles are computed in at least
            float32.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        affine: rescale the output to β·F + γ per channel, both learned (SphereNorm, paper sec. 2.5).

    Shape:
        - Input: (N, C_in, H, W).
        - Output: (N, C_out, H_out, W_out), sizes as in torch.

    Example:
        >>> layer = hs.nn.SphereConv2d(3, 16, 3, padding=1, angular="sigmoid")
        >>> layer(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 16, 8, 8])
    """


class SphereConv3d(_SphereConv, DecoupledConv3d):
    """g(θ) on patches (SphereConv, paper eq. 1-4): the twin of :class:`torch.nn.Conv3d`.

    Args:
        in_channels: number of channels of the input; the patches have in_channels/groups · kernel entries.
        out_channels: channels of the output: the number of kernels.
        kernel_size: size of the window, a number or one per dimension.
        stride: step of the window, one number or one per dimension; larger steps give smaller outputs.
        padding: entries added on each side, a number or one per dimension, or ``"same"`` or ``"valid"``.
        dilation: distance between the entries of a patch.
        groups: number of groups of channels that are convolved separately.
        bias: add a learned number per channel. Off by default: a BatchNorm usually follows.
        padding_mode: what is added at the border: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Norms and angles are computed in at least
            float32.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        affine: rescale the output to β·F + γ per channel, both learned (SphereNorm, paper sec. 2.5).

    Shape:
        - Input: (N, C_in, D, H, W).
        - Output: (N, C_out, D_out, H_out, W_out), sizes as in torch.

    Example:
        >>> layer = hs.nn.SphereConv3d(3, 16, 3, padding=1)
        >>> layer(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 16, 8, 8, 8])
    """
