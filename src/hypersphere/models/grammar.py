"""The grammar of the image networks: stages of convolutions, pools and residual units, as the tables print them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor, nn
from torch.nn import functional as F

from .._core.checks import check_choice, check_count
from .slots import Slots

Size: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Conv:
    """``[kernel×kernel, width]``: operator, normalisation, activation; padded to keep the size at stride 1.

    Args:
        width: number of filters, that is channels of the output.
        kernel: size of the square window in pixels.
        stride: step of the window in pixels; 2 halves height and width.

    Example:
        >>> layer, channels = hs.models.Conv(16).build(hs.models.Slots(), 3)
        >>> channels, hs.models.Conv(16, stride=2).shrink(32)
        (16, 16)
    """

    width: int
    kernel: int = 3
    stride: int = 1

    def build(self, slots: Slots, cin: int) -> tuple[nn.Module, int]:
        """Build the layer.

        Args:
            slots: operator, normalisation and activation of the network.
            cin: number of channels of its input.

        Returns:
            The layer and the number of its output channels.
        """
        return slots.block("Conv2d", cin, self.width, self.kernel, stride=self.stride), self.width

    def shrink(self, size: int) -> int:
        """Compute the size of the output.

        Args:
            size: height or width of the input.

        Returns:
            Height or width of the output.
        """
        return _shrink(size, self.kernel, self.stride, (self.kernel - 1) // 2)


@dataclass(frozen=True)
class Pool:
    """Max pooling, 2×2 with stride 2 by default.

    Args:
        kernel: size of the square window in pixels.
        stride: step of the window in pixels; 2 halves height and width.
        padding: pixels added on each side; they are never the maximum.

    Example:
        >>> hs.models.Pool().shrink(32)
        16
    """

    kernel: int = 2
    stride: int = 2
    padding: int = 0

    def build(self, slots: Slots, cin: int) -> tuple[nn.Module, int]:
        """Build the layer.

        Args:
            slots: not used: pooling has no operator.
            cin: number of channels of its input.

        Returns:
            The layer and the number of its output channels.
        """
        return nn.MaxPool2d(self.kernel, self.stride, self.padding), cin

    def shrink(self, size: int) -> int:
        """Compute the size of the output.

        Args:
            size: height or width of the input.

        Returns:
            Height or width of the output.
        """
        return _shrink(size, self.kernel, self.stride, self.padding)


@dataclass(frozen=True)
class Unit:
    """A residual unit of 3×3 convolutions (or 1×1, 3×3, 1×1 with 4 times the width at its end).

    Args:
        width: number of filters of the unit, that is channels of its output.
        stride: step of its first convolution; 2 halves height and width.
        form: ``"basic"`` or ``"bottleneck"``, with the last activation after the sum; ``"face"`` with both activations
            inside the branch, as in the SphereFace networks.
        shortcut: where the shape changes, a 1×1 convolution with the network's ``"operator"`` (SphereResNet-v1) or a
            ``"plain"`` one (v2), or ``"pad"``: subsample and append channels of zeros, without parameters.

    Raises:
        ValueError: If ``form`` or ``shortcut`` is unknown, or ``"pad"`` would have to remove channels.

    Example:
        >>> unit, channels = hs.models.Unit(16, form="bottleneck").build(hs.models.Slots(), 3)
        >>> channels
        64
    """

    width: int
    stride: int = 1
    form: str = "basic"
    shortcut: str = "plain"

    def __post_init__(self) -> None:
        check_choice("form", self.form, ("basic", "bottleneck", "face"))
        check_choice("shortcut", self.shortcut, ("operator", "plain", "pad"))

    @property
    def cout(self) -> int:
        """Channels of the output: the width, or 4 times that of a bottleneck."""
        return self.width * (4 if self.form == "bottleneck" else 1)

    def build(self, slots: Slots, cin: int) -> tuple[nn.Module, int]:
        """Build the unit.

        Args:
            slots: operator, normalisation and activation of the network.
            cin: number of channels of its input.

        Returns:
            The unit and the number of its output channels.
        """
        kernels = (1, 3, 1) if self.form == "bottleneck" else (3, 3)
        channels = [cin, *[self.width] * (len(kernels) - 1), self.cout]
        branch = nn.Sequential()
        for i, kernel in enumerate(kernels):
            last = i == len(kernels) - 1
            stride = self.stride if i == 0 else 1
            activate = not last or self.form == "face"
            branch.append(slots.block("Conv2d", channels[i], channels[i + 1], kernel, stride=stride, activate=activate))
        after = nn.Identity() if self.form == "face" else slots.nonlinearity(self.cout)
        return Residual(branch, self._make_shortcut(slots, cin), after), self.cout

    def _make_shortcut(self, slots: Slots, cin: int) -> nn.Module:
        if self.stride == 1 and cin == self.cout:
            return nn.Identity()
        if self.shortcut == "pad":
            if self.cout < cin:
                raise ValueError(f"shortcut='pad' cannot make {self.cout} channels of {cin}: use shortcut='plain'")
            return _PadShortcut(self.cout - cin, self.stride)
        plain = self.shortcut == "plain"
        return slots.block("Conv2d", cin, self.cout, 1, stride=self.stride, activate=False, plain=plain)

    def shrink(self, size: int) -> int:
        """Compute the size of the output.

        Args:
            size: height or width of the input.

        Returns:
            Height or width of the output.
        """
        return _shrink(size, 3, self.stride, 1)


Layer: TypeAlias = Conv | Pool | Unit
Stages: TypeAlias = Sequence[tuple[str, Sequence[Layer]]]


def build_stages(stages: Stages, slots: Slots, cin: int, image_size: Size) -> tuple[nn.Sequential, int, Size]:
    """The stages by name, and the channels and size of what they give."""
    out: OrderedDict[str, nn.Module] = OrderedDict()
    channels, size = check_count("in_channels", cin), image_size
    for name, layers in stages:
        stage = nn.Sequential()
        for layer in layers:
            module, channels = layer.build(slots, channels)
            stage.append(module)
            size = layer.shrink(size[0]), layer.shrink(size[1])
        out[name] = stage
    if min(size) < 1:
        raise ValueError(f"image_size={image_size} is too small: nothing of it is left after the last pooling")
    return nn.Sequential(out), channels, size


def image_size_of(value: int | Sequence[int]) -> Size:
    """(height, width) from a number or a pair."""
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2:
        raise ValueError(f"image_size={value!r} must be one number or (height, width)")
    return check_count("image_size", pair[0]), check_count("image_size", pair[1])


def _shrink(size: int, kernel: int, stride: int, padding: int) -> int:
    return (size + 2 * padding - kernel) // stride + 1


class Residual(nn.Module):
    """act(F(x) + shortcut(x))."""

    def __init__(self, branch: nn.Module, shortcut: nn.Module, act: nn.Module) -> None:
        super().__init__()
        self.branch, self.shortcut, self.act = branch, shortcut, act

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.branch(x) + self.shortcut(x))


class _PadShortcut(nn.Module):
    """Every ``stride``-th pixel, and zeros in the new channels."""

    def __init__(self, extra: int, stride: int) -> None:
        super().__init__()
        self.extra, self.stride = extra, stride

    def forward(self, x: Tensor) -> Tensor:
        return F.pad(x[..., :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.extra))

    def extra_repr(self) -> str:
        return f"extra={self.extra}, stride={self.stride}"
