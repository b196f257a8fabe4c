"""A loss with an additive margin on normalised features as one node of autograd: few launches, little Python.

ℓ = log(1 + e^(log Σ_{j≠y} e^(s·c_j) − s·ψ(c_y))), c_j = x̂·ŵ_j, with ψ(c) = c − m (CosFace; m = 0: no margin) or
cos(θ + m) (ArcFace). The pass over the classes is that of :mod:`hypersphere.kernels.heads`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["Additive", "additive_losses"]


class Additive(NamedTuple):
    """Scale, margin, whether it is added to the angle, and how the pass goes: classes of a block, half precision."""

    scale: float
    margin: float
    angle: bool
    width: int | None
    half: bool


def additive_losses(
    settings: Additive, plain: Callable[[Tensor, Tensor], Tensor], x: Tensor, w: Tensor, labels: Tensor
) -> Tensor:
    """ℓ of each sample (N,); ``plain`` gives the same from x and w by plain operations, for second derivatives."""
    keep = torch.is_grad_enabled() and w.requires_grad
    losses: Tensor = _Additive.apply(settings, plain, keep, labels, x, w)
    return losses


class _Additive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, settings: Additive, plain: Any, keep: bool, labels: Tensor, x: Tensor, w: Tensor) -> Tensor:
        from ..kernels import heads, rows, target  # Triton is imported where a kernel runs

        direction, length = rows.polar(x.detach().contiguous())
        scaled = settings.scale * direction
        job, inputs = _job(settings, scaled, w, labels)
        lse, _, ctx.kept = heads.forward(job, inputs, keep)
        ctx.settings, ctx.plain = settings, plain
        ctx.save_for_backward(labels, x, w, direction, length, scaled, lse)
        return target.losses(_target(settings, direction, w, labels), lse)

    @staticmethod
    def backward(ctx: Any, d_losses: Tensor) -> tuple[Any, ...]:
        from ..kernels import heads, target

        labels, x, w, direction, length, scaled, lse = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative will be asked for
            with torch.enable_grad():
                found = torch.autograd.grad(ctx.plain(x, w), (x, w), d_losses, create_graph=True, allow_unused=True)
            return None, None, None, None, *found
        own = _target(ctx.settings, direction, w, labels)
        d_lse, d_cos = target.shares(own, lse, d_losses)
        job, inputs = _job(ctx.settings, scaled, w, labels)
        d_scaled, d_w, *_ = heads.backward(job, inputs, lse, d_lse, d_lse, ctx.kept)
        ctx.kept = None  # free it: the backward pass reads it once
        d_x = target.backward(own, length, d_cos, d_scaled, d_w)
        return None, None, None, None, d_x, d_w


def _job(settings: Additive, scaled: Tensor, w: Tensor, labels: Tensor) -> tuple[Any, Any]:
    from ..kernels import heads

    job = heads.Pass(heads.Rule("cosine"), True, 0, settings.half, settings.width, settings.scale)
    return job, heads.Inputs(scaled, w.detach(), labels)


def _target(settings: Additive, direction: Tensor, w: Tensor, labels: Tensor) -> Any:
    from ..kernels import target

    return target.Target(direction, w.detach(), labels, settings.scale, settings.margin, settings.angle)
