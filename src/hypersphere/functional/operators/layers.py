"""The operators as users call them: arguments checked, names resolved, shapes brought to (N, C, ...)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from ..._core import registries
from ..._core.checks import check_choice, check_count
from ..._core.errors import check_floating
from ..angular import ANGULAR, AngularForm
from ..magnitude import DEFAULT_BETA, MAGNITUDES, MagnitudeForm
from .decoupled import AngularRule, MagnitudeRule, decouple
from .geometry import Geometry, per_dimension


def decoupled_conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | str | tuple[int, ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
    *,
    magnitude: str | MagnitudeRule = "sphere",
    angular: str | AngularRule = "cosine",
    weighted: str | None = None,
) -> Tensor:
    """f(w, x) = h(‖x‖)·g(θ) on the patches of x (thesis sec. 4.3), in 1 to 3 dimensions.

    | ``weighted``   | f(w, x)                            |
    | -------------- | ---------------------------------- |
    | None           | h(‖x‖)·g(θ)                        |
    | ``"linear"``   | ‖w‖·h(‖x‖)·g(θ)                    |
    | ``"product"``  | h(‖w‖·‖x‖)·g(θ)                    |
    | ``"separate"`` | h(‖w‖)·h(‖x‖)·g(θ), α counted once |

    A zero patch gives 0. Its gradient is 0 as well, except if g is the cosine and h vanishes linearly; then it is the
    limit. A zero kernel gives 0. For half-precision inputs, norms and angles are computed in float32.

    Args:
        x: the input, whose patches (or rows) are compared with the kernels by their angle.
        weight: the kernels; only their directions matter unless ``weighted`` says otherwise.
        bias: a number per output channel, added to the result.
        stride: step of the window, a number or one per dimension.
        padding: zeros added on each side, a number or one per dimension, or ``"same"`` or ``"valid"``.
        dilation: distance between the entries of a patch.
        groups: number of groups of channels that are convolved separately.
        magnitude: h, a name with its default parameters or a callable of the norm (:mod:`hypersphere.magnitude`).
        angular: g, a name with its default parameters or an object with ``from_cos`` (:mod:`hypersphere.angular`).
        weighted: how ‖w‖ enters (table above, thesis sec. 4.3.5); None ignores it.

    Returns:
        The output of the operator, in the dtype of ``x``.

    Shape:
        - x: (N, C_in, ...), with one to three spatial dimensions.
        - weight: (C_out, C_in/groups, ...).
        - Output: (N, C_out, ...), as of :func:`torch.nn.functional.conv2d`.

    Raises:
        ValueError: If the shapes of ``x``, ``weight`` and ``bias`` do not fit, or a name or option is unknown.
        TypeError: If ``x`` or ``weight`` is not a floating-point tensor.

    Example:
        >>> x, w = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
        >>> y = hs.functional.decoupled_conv(x, w, padding=1, magnitude="sphere", angular="cosine")
        >>> y.shape, bool((y.abs() <= 1 + 1e-6).all())
        (torch.Size([2, 4, 8, 8]), True)
    """
    _check_tensors(x, weight, 3, 5)
    dims = weight.dim() - 2
    strides, dilations = per_dimension("stride", stride, dims), per_dimension("dilation", dilation, dims)
    kernel = tuple(weight.shape[2:])
    check_count("groups", groups)
    if isinstance(padding, str):
        if check_choice("padding", padding, ("same", "valid")) == "same" and any(s != 1 for s in strides):
            raise ValueError(f"padding='same' needs stride 1, not {stride!r}: give the padding as numbers")
        x, padding = _same_padding(x, kernel, dilations) if padding == "same" else (x, 0)
    paddings = per_dimension("padding", padding, dims, minimum=0)
    geometry = Geometry(kernel, strides, paddings, dilations, groups)
    _check_channels(weight, bias, groups, weight.shape[0])
    return _over_batch(x, weight, bias, geometry, weight.shape[1] * groups, magnitude, angular, weighted)


def decoupled_conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] = 0,
    output_padding: int | tuple[int, ...] = 0,
    groups: int = 1,
    dilation: int | tuple[int, ...] = 1,
    *,
    magnitude: str | MagnitudeRule = "sphere",
    angular: str | AngularRule = "cosine",
    weighted: str | None = None,
) -> Tensor:
    """Transposed convolution f(w, x) = h(‖x‖)·g(θ): the operator on the patches of the zero-stuffed x.

    ‖w‖ is the norm of the whole kernel of an output channel. Gradients at zero and precision are as in
    :func:`decoupled_conv`.

    Args:
        x: the input, whose patches (or rows) are compared with the kernels by their angle.
        weight: the kernels, input channels first as torch has them.
        bias: a number per output channel, added to the result.
        stride: step of the output for one step of the input.
        padding: entries cut from each side of the output.
        output_padding: entries added to one side of the output, to choose among the sizes that a stride allows.
        groups: number of groups of channels that are convolved separately.
        dilation: distance between the entries of a patch.
        magnitude: h, a name with its default parameters or a callable of the norm.
        angular: g, a name with its default parameters or an object with ``from_cos``.
        weighted: how ‖w‖ enters, as in :func:`decoupled_conv`; None ignores it.

    Returns:
        The output of the operator, in the dtype of ``x``.

    Shape:
        - x: (N, C_in, ...), with one to three spatial dimensions.
        - weight: (C_in, C_out/groups, ...).
        - Output: (N, C_out, ...), as of :func:`torch.nn.functional.conv_transpose2d`.

    Raises:
        ValueError: If the shapes of ``x``, ``weight`` and ``bias`` do not fit, or a name is unknown.
        TypeError: If ``x`` or ``weight`` is not a floating-point tensor.

    Example:
        >>> x, w = torch.randn(2, 3, 8, 8), torch.randn(3, 4, 2, 2)
        >>> hs.functional.decoupled_conv_transpose(x, w, stride=2).shape
        torch.Size([2, 4, 16, 16])
    """
    _check_tensors(x, weight, 3, 5)
    dims = weight.dim() - 2
    strides, dilations = per_dimension("stride", stride, dims), per_dimension("dilation", dilation, dims)
    paddings = per_dimension("padding", padding, dims, minimum=0)
    outer = per_dimension("output_padding", output_padding, dims, minimum=0)
    check_count("groups", groups)
    geometry = Geometry(tuple(weight.shape[2:]), strides, paddings, dilations, groups, True, outer)
    _check_channels(weight, bias, groups, weight.shape[1] * groups)
    return _over_batch(x, weight, bias, geometry, weight.shape[0], magnitude, angular, weighted)


def decoupled_linear(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    magnitude: str | MagnitudeRule = "sphere",
    angular: str | AngularRule = "cosine",
    weighted: str | None = None,
) -> Tensor:
    """f(w, x) = h(‖x‖)·g(θ) of the rows of ``weight`` and of x (thesis 4.1): see :func:`decoupled_conv`.

    Args:
        x: the input, whose patches (or rows) are compared with the kernels by their angle.
        weight: one vector per output; only its direction matters unless ``weighted`` says otherwise.
        bias: a number per output, added to the result.
        magnitude: h, a name with its default parameters or a callable of the norm.
        angular: g, a name with its default parameters or an object with ``from_cos``.
        weighted: how ‖w‖ enters, as in :func:`decoupled_conv`; None ignores it.

    Returns:
        The output of the operator, in the dtype of ``x``.

    Shape:
        - x: (..., in).
        - weight: (out, in).
        - Output: (..., out).

    Raises:
        ValueError: If the last dimension of ``x`` is not that of ``weight``, or a name is unknown.
        TypeError: If ``x`` or ``weight`` is not a floating-point tensor.

    Example:
        >>> x = torch.tensor([[3.0, 4.0]])
        >>> hs.functional.decoupled_linear(x, torch.eye(2))
        tensor([[0.6000, 0.8000]])
    """
    _check_tensors(x, weight, 2, 2)
    if x.dim() == 0 or x.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but weight {tuple(weight.shape)} takes (..., {weight.shape[1]})"
        )
    _check_channels(weight, bias, 1, weight.shape[0])
    out = decouple(as_rows(x), weight, Geometry(()), _magnitude(magnitude), _angular(angular), weighted)
    return _with_bias(out, bias).reshape(*x.shape[:-1], weight.shape[0])


def as_rows(x: Tensor) -> Tensor:
    """(..., in) as (rows, in), which may be without entries."""
    return x.flatten(0, -2) if x.dim() > 1 else x.unsqueeze(0)


def _over_batch(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    geometry: Geometry,
    channels: int,
    magnitude: str | MagnitudeRule,
    angular: str | AngularRule,
    weighted: str | None,
) -> Tensor:
    """A convolution of (N, C, ...), or of one unbatched (C, ...)."""
    dims = len(geometry.kernel)
    batched = x if x.dim() == dims + 2 else x.unsqueeze(0)
    if batched.dim() != dims + 2 or batched.shape[1] != channels:
        raise ValueError(
            f"x has shape {tuple(x.shape)}, but weight {tuple(weight.shape)} with groups={geometry.groups} takes "
            f"(N, {channels}, ...) with {dims} spatial dimensions"
        )
    out = decouple(batched, weight, geometry, _magnitude(magnitude), _angular(angular), weighted)
    out = _with_bias(out, bias)
    return out if x.dim() == dims + 2 else out.squeeze(0)


def _with_bias(out: Tensor, bias: Tensor | None) -> Tensor:
    return out if bias is None else out + bias.to(out.dtype).reshape(-1, *[1] * (out.dim() - 2))


def _angular(value: str | AngularRule) -> AngularRule:
    if not isinstance(value, str):
        if isinstance(value, type) or not hasattr(value, "from_cos"):
            raise TypeError(f"angular={value!r} is neither a name nor an object with a method from_cos(c)")
        return value
    return AngularForm(value) if value in ANGULAR else registries.ANGULAR.find(value, "angular")()


def _magnitude(value: str | MagnitudeRule) -> MagnitudeRule:
    if not isinstance(value, str):
        if isinstance(value, type) or not callable(value):
            raise TypeError(f"magnitude={value!r} is neither a name nor a callable h(norm)")
        return value
    if value in MAGNITUDES:
        return MagnitudeForm(value, beta=DEFAULT_BETA.get(value, 0.0))
    return registries.MAGNITUDES.find(value, "magnitude")()


def _same_padding(x: Tensor, kernel: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
    """x and the numbers that ``padding="same"`` means: padded here where the two sides differ."""
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    if all(total % 2 == 0 for total in totals):
        return x, tuple(total // 2 for total in totals)
    sides = [side for total in reversed(totals) for side in (total // 2, total - total // 2)]
    return F.pad(x, sides), (0,) * len(kernel)


def _check_tensors(x: Tensor, weight: Tensor, lowest: int, highest: int) -> None:
    check_floating("x", x)
    check_floating("weight", weight)
    if not lowest <= weight.dim() <= highest:
        raise ValueError(f"weight has shape {tuple(weight.shape)}: it must have {lowest} to {highest} dimensions")


def _check_channels(weight: Tensor, bias: Tensor | None, groups: int, channels: int) -> None:
    if weight.shape[0] % groups:
        raise ValueError(
            f"groups={groups} does not divide the first dimension of weight, {weight.shape[0]} (shape "
            f"{tuple(weight.shape)}): each group needs equally many channels"
        )
    if bias is None:
        return
    check_floating("bias", bias)
    if tuple(bias.shape) != (channels,):
        raise ValueError(f"bias has shape {tuple(bias.shape)}: pass one number for each of the {channels} outputs")
