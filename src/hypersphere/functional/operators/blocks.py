"""Operator, BatchNorm and activation as one step on a GPU: (x, q) → (z, q′), q = Σ_c x² of every position.

    z = act(BN(a·h(‖x‖)·g(θ) + b)),   q′ = Σ_c z²

q′ is a differentiable output. A block that reads z gets it, so that the sum is not computed again and its
gradient comes back through it. The same kernels serve three callers: eager mode by an autograd function,
compiled graphs by one operator that they do not look into, and second derivatives by plain operations.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ... import kernels
from ..._core.modes import (
    PLAIN,
    as_constant,
    autocast_dtype,
    differentiated,
    is_exporting,
    is_transformed_or_dual,
    needs_definition,
)
from ..._core.sphere import upcast
from ...kernels.memory import kept_pieces
from ...kernels.spec import ANGULAR, MAGNITUDES, Fields, Spec, Window, encode, spec_of
from ..magnitude import follow
from .closed_forms import form_of
from .definition import composed_block
from .geometry import Geometry
from .rows import takes

_MOST_CHANNELS = 1 << 16
_MOST_WINDOW = 512


class Norm(NamedTuple):
    """BatchNorm's tensors and numbers.

    Attributes:
        gamma, beta, mean, var, tracked: Weight, bias and buffers, where it has them.
        batch: Whether the statistics are those of the batch.
        eps, momentum: As in :class:`torch.nn.BatchNorm2d`.
        group: Processes whose batches count as one, None for this one alone.
    """

    gamma: Tensor | None
    beta: Tensor | None
    mean: Tensor | None
    var: Tensor | None
    tracked: Tensor | None
    batch: bool
    eps: float
    momentum: float
    group: Any = None


class Activation(NamedTuple):
    """``"none"``, ``"relu"``, ``"leaky_relu"`` (also with learned slopes), ``"gelu"``, ``"gelu_tanh"``, ``"silu"``."""

    kind: str = "none"
    leak: float = 0.0
    leaks: Tensor | None = None


_NO_ACTIVATION = Activation()


def fused_block(
    x: Tensor,
    weight: Tensor,
    geometry: Geometry,
    h: Any,
    g: Any,
    q: Tensor | None = None,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    norm: Norm | None = None,
    activation: Activation | None = None,
    give_q: bool = False,
) -> tuple[Tensor, Tensor | None] | None:
    """z and q′ (if asked for) by kernels, or None where plain operations must be used.

    The caller has found that kernels are usable for x.

    Args:
        x: (N, C, ...), as autocast would give it to a convolution.
        weight: Filters of the operator.
        geometry: How patches are read.
        h: Magnitude function.
        g: Angular function.
        q: Σ_c x², if a block gave it; without a gradient of its own, if it does not require one and x does.
        scale: a for each channel.
        shift: b for each channel.
        norm: BatchNorm, if one follows.
        activation: What follows it.
        give_q: Whether q′ is wanted.
    """
    compiling = torch.compiler.is_compiling()
    if compiling and is_exporting():
        return None
    found = _settle(weight, geometry, h, g, scale, shift, norm, activation or _NO_ACTIVATION)
    if found is None or x.numel() == 0 or weight.numel() == 0:
        return None
    numbers, tensors = found
    if q is not None and geometry.groups != 1:
        q = None
    group = None if norm is None else norm.group
    if compiling:
        fields = _fields(weight.shape, geometry, *[as_constant(v) for v in numbers])
        if group is not None or fields is None:
            return None
        if takes(fields, x):
            given = (x, q, tensors[0], *tensors[2:5], tensors[7])
            z, out = torch.ops.hypersphere.rows(*given, give_q, encode(fields))
            return z, out if give_q else None
        if q is None and geometry.groups == 1:  # here, the compiler joins it to what makes x, and its gradient to x's
            q = upcast(x).square().sum(1, keepdim=True)
        return _block_op(x, q, tensors, fields, norm)
    spec = _spec(weight.shape, geometry, *numbers)
    if spec is None or is_transformed_or_dual():
        return None
    learning = False
    for tensor in (x, q, *tensors):
        if tensor is not None:
            if type(tensor) not in PLAIN or (tensor.dim() < 2 and not tensor.is_contiguous()):
                return None
            learning = learning or tensor.requires_grad
    if learning and torch.is_grad_enabled():
        return _apply_block((spec, group, give_q, tensors[8:]), x, q, *tensors[:8])
    block: Any = kernels.block
    z, out, _, _ = block.forward(spec, block.Inputs(x, q, *tensors), True, give_q, group, False)
    return z, out


def _settle(
    weight: Tensor,
    geometry: Geometry,
    h: Any,
    g: Any,
    scale: Tensor | None,
    shift: Tensor | None,
    norm: Norm | None,
    activation: Activation,
) -> tuple[tuple[Any, ...], tuple[Tensor | None, ...]] | None:
    """The numbers of :func:`_fields`, and the tensors from the weight on in the order of kernels' ``Inputs``."""
    closed, form = form_of(g), form_of(h)
    if closed is None or form is None:
        return None
    kind, k = closed
    curve, channels = None, geometry.channels(weight)
    if kind != "sigmoid":
        k = 0.0
    elif isinstance(k, Tensor):
        curve = upcast(k).reshape(-1).expand(channels) if k.numel() == 1 else upcast(k).reshape(-1)
        k, curve = None, curve.contiguous()
    radius = form.rho if isinstance(form.rho, Tensor) else None
    if radius is not None and radius.numel() != 1:
        return None
    rho = form.rho if radius is None else None
    numbers = (kind, k, form.kind, form.alpha, form.beta, rho, form.running is not None, form.momentum, form.training)
    leaks = activation.leaks
    if leaks is not None and leaks.numel() == 1:
        leaks = leaks.expand(channels).contiguous()
    if norm is None:
        told: tuple[Any, ...] = ("none", 1e-5, 0.1)
        state: tuple[Any, ...] = (None, None, leaks, None, None, None)
    else:
        told = ("train" if norm.batch else "eval", norm.eps, norm.momentum)
        state = (norm.gamma, norm.beta, leaks, norm.mean, norm.var, norm.tracked)
    tensors = (weight, curve, scale, shift, radius, *state, form.running, form.tracked)
    return (*numbers, *told, activation.kind, activation.leak), tensors


def _fields(
    shape: Any, geometry: Geometry, kind: str, k: Any, h: str, alpha: Any, beta: Any, rho: Any, *rest: Any
) -> Fields | None:
    """The settings for kernels, None for functions and sizes that they do not take."""
    if kind not in ANGULAR or h not in MAGNITUDES:
        return None
    window = math.prod(geometry.kernel)
    if window > _MOST_WINDOW or max(shape[0], shape[1] * geometry.groups) > _MOST_CHANNELS:
        return None
    g = geometry
    parts = Window(g.kernel, g.stride, g.padding, g.dilation, g.groups, g.transposed, g.output_padding)
    curve, radius = (None if v is None else float(v) for v in (k, rho))
    return Fields(parts, kind, curve, h, float(alpha), float(beta), radius, *rest)


@functools.lru_cache(maxsize=4096)
def _spec(*numbers: Any) -> Spec | None:
    """What kernels prepared for these settings."""
    fields = _fields(*numbers)
    return None if fields is None else spec_of(fields)


class _Block(torch.autograd.Function):
    """(z, q′) with x, the convolution's output, maps and sums kept."""

    @staticmethod
    def forward(
        ctx: Any, call: tuple[Any, ...], x: Tensor, q: Tensor | None, *learned: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        spec, group, give_q, state = call
        block: Any = kernels.block
        z, out, read, kept = block.forward(spec, block.Inputs(x, q, *learned, *state), True, give_q, group)
        *tensors, mode = kept
        ctx.call, ctx.fresh = (spec, group, mode), True
        statistics = state[:2] if spec.fields.norm == "eval" else (None, None)
        read = x if ctx.needs_input_grad[1] else read  # not a copy in another order, which has no history
        q = q if ctx.needs_input_grad[2] else None  # else backward goes through x
        ctx.save_for_backward(*tensors, read, q, *learned, *statistics)  # checkpointing and offloading see all of it
        ctx.set_materialize_grads(False)
        return z, out

    @staticmethod
    def backward(ctx: Any, dz: Tensor | None, dq: Tensor | None) -> tuple[Any, ...]:
        if dz is None and dq is None:
            return (None,) * 11
        y, unit, memory, *saved = ctx.saved_tensors
        need = ctx.needs_input_grad[1:]
        spec, group, mode = ctx.call
        if needs_definition(dz, dq):
            define = functools.partial(composed_block, spec.fields, mode.plan.views(memory)[-1], group=group)
            return None, *differentiated(define, saved, need, (dz, dq))
        block, fresh = kernels.block, ctx.fresh
        ctx.fresh = False
        kept = block.Kept(y, unit, memory, mode)
        return None, *block.backward(spec, block.Inputs(*saved), kept, dz, dq, need, fresh, group)


# without torch's own step before it, which looks for what is_plain_eager has ruled out
_apply_block: Any = super(torch.autograd.Function, _Block).apply


def _block_op(
    x: Tensor, q: Tensor | None, tensors: tuple[Tensor | None, ...], fields: Fields, norm: Norm | None
) -> tuple[Tensor, Tensor | None]:
    """The block as a node of a compiled graph; running statistics move outside of it."""
    statistics = tensors[8:10] if fields.norm == "eval" else (None, None)
    z, out, _, _, memory = torch.ops.hypersphere.block(x, q, *tensors[:8], *statistics, tensors[11], encode(fields))
    sums, table, *_ = kept_pieces(fields, z.shape).views(memory)
    channels = z.shape[1]
    if norm is not None and norm.batch and norm.mean is not None and norm.var is not None:
        with torch.no_grad():
            count = z.numel() // channels
            mean, over = table[:channels], table[channels : 2 * channels]
            var = (over.reciprocal().square() - fields.eps) * (count / max(count - 1, 1))
            norm.mean.lerp_(mean.to(norm.mean.dtype), fields.momentum)
            norm.var.lerp_(var.to(norm.var.dtype), fields.momentum)
            if norm.tracked is not None:
                norm.tracked.add_(1)
    running, tracked = tensors[11:13]
    if fields.running and fields.training and running is not None and tracked is not None:
        mean = sums.view(torch.float64)[-4] / (z.numel() // channels * fields.window.groups)
        follow(mean.float(), running, tracked, fields.running_momentum)
    return z, out


def as_convolution_takes(x: Tensor, weight: Tensor) -> Tensor:
    """x as a convolution under autocast would take it."""
    dtype = autocast_dtype(x.device)
    if dtype is not None:
        return x if x.dtype in (dtype, torch.float64) else x.to(dtype)
    if x.dtype != weight.dtype:
        raise TypeError(f"x is {x.dtype} and weight {weight.dtype}: cast one, or run under torch.autocast")
    return x
