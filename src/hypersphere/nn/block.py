"""Operator, BatchNorm and activation run as one fused step where kernels serve, else one after the other.

    z = act(norm(op(x)))

The three stay the modules they are: the step only reads their parameters and moves their buffers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .. import kernels
from .._core.modes import autocast_dtype, class_of, is_exporting, remembered
from .._core.sphere import upcast
from ..functional.operators import (
    Activation,
    Geometry,
    Norm,
    as_convolution_takes,
    fused_block,
    fused_max_pool,
    make_kernel,
    weight_factor,
)
from ..functional.operators.closed_forms import form_of
from ..kernels.layout import out_shape
from ..kernels.spec import Window

ACTIVATIONS: tuple[type[nn.Module], ...] = (nn.ReLU, nn.LeakyReLU, nn.PReLU, nn.GELU, nn.SiLU)

_DIMENSIONS: dict[type, tuple[int, ...]] = {nn.BatchNorm1d: (2, 3), nn.BatchNorm2d: (4,), nn.BatchNorm3d: (5,)}


class Parts(NamedTuple):
    """An operator and what follows it."""

    op: Any
    norm: _BatchNorm | None = None
    act: nn.Module | None = None


def is_norm(module: nn.Module) -> bool:
    """Whether this is a BatchNorm that a block can take over: torch's own, or one that says over whom it averages."""
    return class_of(module) in (*_DIMENSIONS, nn.SyncBatchNorm) or hasattr(type(module), "statistics_group")


def is_activation(module: nn.Module) -> bool:
    """Whether this is an activation that a block can take over."""
    return class_of(module) in ACTIVATIONS


def run(parts: Parts, x: Tensor, q: Tensor | None = None, give_q: bool = False) -> tuple[Tensor, Tensor | None]:
    """z, and Σ_c z² where it was wanted and comes for free.

    Args:
        parts: The modules.
        x: Input of the operator.
        q: Σ_c x² of every position as a block gave it, if one did.
        give_q: Whether the next block reads z.
    """
    found = fused_step(parts, x, q, give_q) if kernels.usable(x) else None
    if found is not None:
        return found
    out = parts.op.exported(x, parts.norm)
    for module in parts[2:] if out is not None else parts:
        if module is not None:
            out = module(x if out is None else out)
    return out, None


def wants_channels_last(x: Any) -> bool:
    """Whether maps in their usual order are better put channels last between blocks, and back behind them.

    cuDNN's products on tensor cores are channels last: in the usual order it would turn around what goes in and out
    of each of them. Float32 without TF32 has kernels for the usual order.
    """
    if not isinstance(x, Tensor) or x.dim() != 4 or not x.is_cuda or not x.is_contiguous():
        return False
    if not kernels.usable(x) or is_exporting():
        return False
    return torch.backends.cudnn.allow_tf32 or x.dtype != torch.float32 or autocast_dtype(x.device) is not None


def pool(module: nn.MaxPool2d, x: Tensor, give_q: bool) -> tuple[Tensor, Tensor | None]:
    """A max pooling between blocks: z, and Σ_c z² where it was wanted and comes for free."""
    found = None
    if kernels.usable(x, "pooling") and not module.ceil_mode and not module.return_indices:
        stride = module.kernel_size if module.stride is None else module.stride
        size, step, edge = _pair(module.kernel_size), _pair(stride), _pair(module.padding)
        if _pair(module.dilation) == (1, 1) and remembered(_fits, size, edge, x.shape[2:]):
            found = fused_max_pool(x, size, step, edge, give_q)
    return (module(x), None) if found is None else found


def _fits(size: tuple[int, int], padding: tuple[int, int], shape: Any) -> bool:
    return all(2 * p <= k and v + 2 * p >= k for p, k, v in zip(padding, size, shape, strict=False))


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def fused_step(parts: Parts, x: Tensor, q: Tensor | None, give_q: bool) -> tuple[Tensor, Tensor | None] | None:
    """:func:`run` by kernels, or None where the modules must run by themselves."""
    op, norm, act = parts
    if op.weighted is not None and op.why_plain() is not None:
        return None
    weight, rules = _parameter(op, "weight"), op._modules
    x = as_convolution_takes(x, weight)
    read = op.read(x, weight)
    if read is None:
        return None
    rows, geometry = read
    channels = geometry.channels(weight)
    activation = _activation(act)
    leaks = None if activation is None else activation.leaks
    if leaks is not None and leaks.numel() != 1 and (leaks.numel() != channels or x.dim() != rows.dim()):
        return None  # its own error, or slopes of something else than the operator's channels
    settled = None
    if norm is not None:
        settled = _norm(norm, rows, x, channels)
        if settled is None or (settled.batch and rows.shape[0] == 1 and _has_one_position(rows, weight, geometry)):
            return None
    if q is not None and (q.dim() != rows.dim() or (rows is not x and q.shape[2:] != rows.shape[2:])):
        q = None  # of other rows: a padded border, or positions that become features
    h, scale = rules.get("magnitude") or op.magnitude, _parameter(op, "scale")
    if op.weighted is not None:
        factor = weight_factor(weight, geometry, h, op.weighted)
        scale = factor if scale is None or factor is None else factor * scale
    found = fused_block(
        rows,
        weight,
        geometry,
        h,
        rules.get("angular") or op.angular,
        q,
        scale,
        _shift(op),
        settled,
        activation,
        give_q,
    )
    if found is None or geometry.kernel or x.dim() == 2:
        return found
    return found[0].reshape(*x.shape[:-1], weight.shape[0]), found[1]


def _has_one_position(rows: Tensor, weight: Tensor, geometry: Geometry) -> bool:
    """Whether a batch of one has one value for each channel, of which BatchNorm says itself that it is not enough."""
    return math.prod(out_shape(tuple(rows.shape), tuple(weight.shape), Window(*geometry))[2:]) == 1


def _parameter(module: Any, name: str) -> Any:
    """A parameter of a module, in a third of the time that torch's way by ``__getattr__`` takes."""
    held = module._parameters
    return held[name] if name in held else getattr(module, name)


def _shift(op: Any) -> Tensor | None:
    """All that is added to the output of an operator: γ of its rescaling and its bias."""
    shift, bias = _parameter(op, "shift"), _parameter(op, "bias")
    if shift is None or bias is None:
        return bias if shift is None else shift
    return shift + bias


def affine_of(op: Any, norm: Any) -> tuple[Tensor | None, Tensor | None]:
    """a and b, in float32 at least, of a·F + b: rescaling and bias of the operator, then BatchNorm in evaluation."""
    scale, shift = (None if v is None else upcast(v) for v in (op.scale, _shift(op)))
    if norm is None:
        return scale, shift
    mean, gain = upcast(norm.running_mean), (upcast(norm.running_var) + norm.eps).rsqrt()
    if norm.weight is not None:
        gain = gain * upcast(norm.weight)
    shift = (-mean if shift is None else shift - mean) * gain
    if norm.bias is not None:
        shift = shift + upcast(norm.bias)
    return gain if scale is None else scale * gain, shift


def constants_of(op: Any, norm: Any) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """ŵ, a and b of a·h·g + b as numbers: where g is the cosine and there is a b, a is a factor of ŵ and comes as None.

    Filters are normalised in float64 and rounded once.
    """
    weight, transposed = op.weight, bool(getattr(op, "transposed", False))
    with torch.no_grad():
        scale, shift = affine_of(op, norm)
        geometry = Geometry((1,) * (weight.dim() - 2), groups=getattr(op, "groups", 1), transposed=transposed)
        unit = make_kernel(weight.double(), weight.double(), geometry, op.magnitude, op.angular).weight
        closed = form_of(op.angular)
        if scale is not None and shift is not None and not transposed and closed is not None and closed[0] == "cosine":
            unit, scale = unit * scale.double().view(-1, *[1] * (weight.dim() - 1)), None
        scale, shift = (t if t is None else t.detach() for t in (scale, shift))
        return unit.to(weight.dtype), scale, shift


def _kind(module: nn.Module) -> type:
    """The class of a module, also where :func:`hypersphere.nn.fuse` has put one above it."""
    kind = type(module)
    return kind if kind in _DIMENSIONS else getattr(kind, "plain", kind)


def _norm(norm: Any, rows: Tensor, x: Tensor, channels: int) -> Norm | None:
    """BatchNorm's state, or None where its own code must run."""
    dims = _DIMENSIONS.get(_kind(norm))
    if (dims is not None and x.dim() not in dims) or x.dim() != rows.dim():
        return None  # its own error, or channels that are not where the operator has them
    weight, bias, buffers = _parameter(norm, "weight"), _parameter(norm, "bias"), norm._buffers
    mean, var, tracked = buffers["running_mean"], buffers["running_var"], buffers["num_batches_tracked"]
    batch, momentum = norm.training or mean is None, norm.momentum
    if batch and momentum is None:
        return None
    if norm.num_features != channels or (weight is None) != (bias is None):
        return None
    if batch and not norm.track_running_stats:
        mean = var = tracked = None
    group = _group(norm) if batch and dims is None else None
    return Norm(weight, bias, mean, var, tracked, batch, norm.eps, momentum or 0.0, group)


def _group(norm: Any) -> Any:
    """The processes whose statistics are one, None where this process is alone."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return None
    group = norm.process_group if isinstance(norm, nn.SyncBatchNorm) else norm.statistics_group()
    group = torch.distributed.group.WORLD if group is None else group
    return group if torch.distributed.get_world_size(group) > 1 else None


_RELU, _SILU = Activation("relu"), Activation("silu")


def _activation(act: Any) -> Activation | None:
    match act:
        case None:
            return None
        case nn.ReLU():
            return _RELU
        case nn.LeakyReLU():
            return Activation("leaky_relu", float(act.negative_slope))
        case nn.PReLU():
            return Activation("leaky_relu", 0.0, act.weight)
        case nn.GELU():
            return Activation("gelu" if act.approximate == "none" else "gelu_tanh")
        case nn.SiLU():
            return _SILU
        case _:
            return None
