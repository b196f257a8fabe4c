"""A loss with an additive margin on normalised features as one node of autograd: few launches, little Python.

ℓ = log(1 + e^(log Σ_{j≠y} e^(s·c_j) − s·ψ(c_y))), c_j = x̂·ŵ_j, with ψ(c) = c − m (CosFace; m = 0: no margin) or
cos(θ + m) (ArcFace), and its sum or mean over the samples that are not ignored. The pass over the classes is that of
:mod:`hypersphere.kernels.heads`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import kernels
from .._core.modes import differentiated, needs_definition
from ..kernels.job import Inputs, Pass, Rule


class Additive(NamedTuple):
    """Scale, margin, whether it is added to the angle, the reduction, and how the pass goes.

    That is: the classes of a block, and whether products are in half precision.
    """

    scale: float
    margin: float
    angle: bool
    reduction: str
    ignore_index: int
    width: int | None
    half: bool


def additive_loss(
    settings: Additive, plain: Callable[[Tensor, Tensor], Tensor], x: Tensor, w: Tensor, labels: Tensor
) -> Tensor:
    """ℓ of each sample (N,), or one number; labels are int64, flat, and may hold ``ignore_index``.

    ``plain`` gives the same from x and w by plain operations, for second derivatives.
    """
    keep = torch.is_grad_enabled() and w.requires_grad
    return _Additive.apply(settings, plain, keep, labels, x, w)


class _Additive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, settings: Additive, plain: Any, keep: bool, labels: Tensor, x: Tensor, w: Tensor) -> Tensor:
        heads, target = kernels.heads, kernels.target
        job = Pass(Rule("cosine"), True, 0, settings.half, settings.width, settings.scale)
        begin = target.start(x.detach().contiguous(), labels, settings.ignore_index, settings.scale, job.dtype)
        inputs = Inputs(begin.scaled, w.detach(), labels, operand=begin.operand)
        lse, _, kept = heads.forward(job, inputs, keep)
        loss, share = target.loss(_target(settings, begin.direction, w, labels), lse, settings.reduction)
        ctx.settings, ctx.plain, ctx.job = settings, plain, job
        ctx.save_for_backward(labels, x, w, *begin, lse, share, *kept)
        return loss

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Any, ...]:
        heads, target = kernels.heads, kernels.target
        labels, x, w, direction, length, scaled, operand, lse, share, *saved = ctx.saved_tensors
        if needs_definition(d_loss):
            need = ctx.needs_input_grad[4:]
            return None, None, None, None, *differentiated(lambda x, w: [ctx.plain(x, w)], (x, w), need, [d_loss])
        own = _target(ctx.settings, direction, w, labels)
        d_lse, d_cos = target.shares(own, lse, d_loss, share)
        inputs = Inputs(scaled, own.w, labels, operand=operand)
        d_scaled, d_w, *_ = heads.backward(ctx.job, inputs, lse, d_lse, d_lse, heads.taken(ctx, saved))
        d_x = target.backward(own, length, d_cos, d_scaled, d_w)
        return None, None, None, None, d_x, d_w


def _target(settings: Additive, direction: Tensor, w: Tensor, labels: Tensor) -> Any:
    scale, margin, angle, _, ignored, *_ = settings
    return kernels.target.Target(direction, w.detach(), labels, scale, margin, angle, ignored)
