"""Decoupled and spherical transposed convolutions, as drop-in twins of ``torch.nn``'s.

A transposed convolution is the convolution of the zero-stuffed input with the flipped kernel. Its
patches hold the stuffed zeros, and ‖w‖ is the norm of the whole kernel of an output channel.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvTransposeNd

from .._core.modes import remembered
from ..functional.operators.decoupled import AngularRule, MagnitudeRule
from ..functional.operators.geometry import Geometry, check_window
from ..functional.operators.layers import decoupled_conv_transpose
from .layer import Decoupled


class _DecoupledConvTranspose(Decoupled, _ConvTransposeNd):
    """f(w, x) = h(‖w‖, ‖x‖)·g(θ) on the patches of the zero-stuffed input, in any number of dimensions."""

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
        check_window(kernel_size=kernel_size, stride=stride, dilation=dilation)
        nd: Any = super()  # nn.ConvTransposeNd, next in line
        nd.__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, groups, bias, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._set_rules(out_channels, magnitude, angular, weighted, affine)

    def read(self, x: Tensor, weight: Tensor) -> tuple[Tensor, Geometry] | None:
        if x.dim() != weight.dim() or x.shape[1] != weight.shape[0]:
            return None
        parts = (tuple(weight.shape[2:]), self.stride, self.padding, self.dilation, self.groups)
        return x, remembered(Geometry, *parts, True, self.output_padding)

    def outer_padding(self, x: Tensor, output_size: list[int] | None) -> tuple[int, ...]:
        """``output_padding``, or what it must be for an output of this size."""
        size: Any = self.kernel_size
        args: Any = (x, output_size, self.stride, self.padding, size, len(size), self.dilation)
        return tuple(self._output_padding(*args))

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        out: Any = self._one_step(input, output_size)
        if out is not None:
            return out
        out = decoupled_conv_transpose(
            input,
            self.weight,
            None,
            self.stride,
            self.padding,  # type: ignore[arg-type]
            self.outer_padding(input, output_size),
            self.groups,
            self.dilation,
            magnitude=self.magnitude,
            angular=self.angular,
            weighted=self.weighted,
        )
        return self._followed(self._rescale(out, -self.weight.dim() + 1, self.bias))


class _SphereConvTranspose(_DecoupledConvTranspose):
    """g(θ) on the patches of the zero-stuffed input, in any number of dimensions."""

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
    """f(w, x) = h(‖w‖, ‖x‖)·g(θ) on zero-stuffed patches (thesis sec. 4.3), like :class:`torch.nn.ConvTranspose1d`.

    Args:
        in_channels: number of channels of the input; the patches have in_channels/groups · kernel entries.
        out_channels: channels of the output: the number of kernels.
        kernel_size: size of the window, a number or one per dimension.
        stride: step of the output for one step of the input.
        padding: entries cut from each side of the output.
        output_padding: entries added to one side of the output, to choose among the sizes that a stride allows.
        groups: number of groups of channels that are convolved separately.
        bias: add a learned number per channel. Off by default: a BatchNorm usually follows.
        dilation: distance between the entries of a patch.
        padding_mode: only ``"zeros"``, as in torch: a transposed convolution has no other padding.
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
        >>> layer = hs.nn.DecoupledConvTranspose1d(3, 16, 2, stride=2, magnitude="tanh")
        >>> layer(torch.randn(2, 3, 8)).shape
        torch.Size([2, 16, 16])
    """


class DecoupledConvTranspose2d(_DecoupledConvTranspose, nn.ConvTranspose2d):
    """f(w, x) = h(‖w‖, ‖x‖)·g(θ) on zero-stuffed patches (thesis sec. 4.3), like :class:`torch.nn.ConvTranspose2d`.

    Args:
        in_channels: number of channels of the input; the patches have in_channels/groups · kernel entries.
        out_channels: channels of the output: the number of kernels.
        kernel_size: size of the window, a number or one per dimension.
        stride: step of the output for one step of the input.
        padding: entries cut from each side of the output.
        output_padding: entries added to one side of the output, to choose among the sizes that a stride allows.
        groups: number of groups of channels that are convolved separately.
        bias: add a learned number per channel. Off by default: a BatchNorm usually follows.
        dilation: distance between the entries of a patch.
        padding_mode: only ``"zeros"``, as in torch: a transposed convolution has no other padding.
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
        >>> layer = hs.nn.DecoupledConvTranspose2d(3, 16, 2, stride=2, magnitude="tanh")
        >>> layer(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 16, 16, 16])
    """


class DecoupledConvTranspose3d(_DecoupledConvTranspose, nn.ConvTranspose3d):
    """f(w, x) = h(‖w‖, ‖x‖)·g(θ) on zero-stuffed patches (thesis sec. 4.3), like :class:`torch.nn.ConvTranspose3d`.

    Args:
        in_channels: number of channels of the input; the patches have in_channels/groups · kernel entries.
        out_channels: channels of the output: the number of kernels.
        kernel_size: size of the window, a number or one per dimension.
        stride: step of the output for one step of the input.
        padding: entries cut from each side of the output.
        output_padding: entries added to one side of the output, to choose among the sizes that a stride allows.
        groups: number of groups of channels that are convolved separately.
        bias: add a learned number per channel. Off by default: a BatchNorm usually follows.
        dilation: distance between the entries of a patch.
        padding_mode: only ``"zeros"``, as in torch: a transposed convolution has no other padding.
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
        >>> layer = hs.nn.DecoupledConvTranspose3d(3, 16, 2, stride=2, magnitude="tanh")
        >>> layer(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 16, 16, 16, 16])
    """


class SphereConvTranspose1d(_SphereConvTranspose, DecoupledConvTranspose1d):
    """g(θ) on zero-stuffed patches (SphereConv, paper eq. 1-4), like :class:`torch.nn.ConvTranspose1d`.

    Args:
        in_channels: number of channels of the input; the patches have in_channels/groups · kernel entries.
        out_channels: channels of the output: the number of kernels.
        kernel_size: size of the window, a number or one per dimension.
        stride: step of the output for one step of the input.
        padding: entries cut from each side of the output.
        output_padding: entries added to one side of the output, to choose among the sizes that a stride allows.
        groups: number of groups of channels that are convolved separately.
        bias: add a learned number per channel. Off by default: a BatchNorm usually follows.
        dilation: distance between the entries of a patch.
        padding_mode: only ``"zeros"``, as in torch: a transposed convolution has no other padding.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Norms and angles are computed in at least
            float32.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        affine: rescale the output to β·F + γ per channel, both learned (SphereNorm, paper sec. 2.5).

    Shape:
        - Input: (N, C_in, L).
        - Output: (N, C_out, L_out), sizes as in torch.

    Example:
        >>> layer = hs.nn.SphereConvTranspose1d(3, 16, 2, stride=2)
        >>> layer(torch.randn(2, 3, 8)).shape
        torch.Size([2, 16, 16])
    """


class SphereConvTranspose2d(_SphereConvTranspose, DecoupledConvTranspose2d):
    """g(θ) on zero-stuffed patches (SphereConv, paper eq. 1-4), like :class:`torch.nn.ConvTranspose2d`.

    Args:
        in_channels: number of channels of the input; the patches have in_channels/groups · kernel entries.
        out_channels: channels of the output: the number of kernels.
        kernel_size: size of the window, a number or one per dimension.
        stride: step of the output for one step of the input.
        padding: entries cut from each side of the output.
        output_padding: entries added to one side of the output, to choose among the sizes that a stride allows.
        groups: number of groups of channels that are convolved separately.
        bias: add a learned number per channel. Off by default: a BatchNorm usually follows.
        dilation: distance between the entries of a patch.
        padding_mode: only ``"zeros"``, as in torch: a transposed convolution has no other padding.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Norms and angles are computed in at least
            float32.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        affine: rescale the output to β·F + γ per channel, both learned (SphereNorm, paper sec. 2.5).

    Shape:
        - Input: (N, C_in, H, W).
        - Output: (N, C_out, H_out, W_out), sizes as in torch.

    Example:
        >>> layer = hs.nn.SphereConvTranspose2d(3, 16, 2, stride=2, angular="sigmoid")
        >>> layer(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 16, 16, 16])
    """


class SphereConvTranspose3d(_SphereConvTranspose, DecoupledConvTranspose3d):
    """g(θ) on zero-stuffed patches (SphereConv, paper eq. 1-4), like :class:`torch.nn.ConvTranspose3d`.

    Args:
        in_channels: number of channels of the input; the patches have in_channels/groups · kernel entries.
        out_channels: channels of the output: the number of kernels.
        kernel_size: size of the window, a number or one per dimension.
        stride: step of the output for one step of the input.
        padding: entries cut from each side of the output.
        output_padding: entries added to one side of the output, to choose among the sizes that a stride allows.
        groups: number of groups of channels that are convolved separately.
        bias: add a learned number per channel. Off by default: a BatchNorm usually follows.
        dilation: distance between the entries of a patch.
        padding_mode: only ``"zeros"``, as in torch: a transposed convolution has no other padding.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Norms and angles are computed in at least
            float32.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        affine: rescale the output to β·F + γ per channel, both learned (SphereNorm, paper sec. 2.5).

    Shape:
        - Input: (N, C_in, D, H, W).
        - Output: (N, C_out, D_out, H_out, W_out), sizes as in torch.

    Example:
        >>> layer = hs.nn.SphereConvTranspose3d(3, 16, 2, stride=2)
        >>> layer(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 16, 16, 16, 16])
    """
