"""The pass over the classes through GPU kernels, for the scores they know; the margin and the target stay outside."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import kernels
from .._core.modes import differentiated, is_plain_eager, needs_definition
from .._core.sphere import norm, unit
from ..kernels.job import Inputs, Pass, Rule
from ..kernels.launch import usable
from ._classes import Classes, Score, reduce_classes


class Known(NamedTuple):
    """A score that the kernels know.

    Args:
        kind: f of u = a·f(z), z the product of the first row tensor with the class vectors: a name of
            :data:`hypersphere.kernels.job.KINDS`.
        numbers: the numbers of f.
        normalize: whether z is with the directions of the class vectors.
        amplitude, threshold, t: which of the row tensors these are; None: there is none.
        bias: which of the class tensors is added to the logits.
        sigma: the number on the device that f reads, if it does.
        bound: the largest |u| that there can be, if there is one.
        k: which of the class tensors is the curvature that f reads.
    """

    kind: str
    numbers: tuple[float, float, float] = (0.0, 0.0, 0.0)
    normalize: bool = True
    amplitude: int | None = None
    threshold: int | None = None
    t: int | None = None
    bias: int | None = None
    sigma: Tensor | None = None
    bound: float = math.inf
    k: int | None = None


def fits(rows: list[Tensor], classes: list[Tensor]) -> bool:
    """Whether the kernels take these tensors: on a GPU or in the interpreter, eager, float32, d at most 4096."""
    x, w = rows[0], classes[0]
    return (
        usable(x, "heads")
        and x.dtype == torch.float32
        and w.dtype in (torch.float32, torch.bfloat16, torch.float16)
        and w.is_contiguous()
        and 0 < x.shape[-1] <= 4096
        and min(x.shape[0], w.shape[0]) > 0
        and is_plain_eager(*(t for t in (*rows, *classes) if t.is_floating_point()))
    )


def reduce_fused(
    known: Known,
    score: Score,
    rows: list[Tensor],
    classes: list[Tensor],
    shared: list[Tensor],
    labels: Tensor,
    *,
    weights: Tensor | None = None,
    width: int | None = None,
    logsumexp: bool = True,
    whole: bool = False,
    half: bool = False,
) -> Classes:
    """As :func:`reduce_classes`, of which this takes the score, too, for second derivatives."""
    keep = torch.is_grad_enabled() and classes[0].requires_grad
    settings = _Settings(known, score, len(rows), len(classes), width, logsumexp, whole, half, keep)
    lse, total, *own = _Fused.apply(settings, labels, weights, *rows, *classes, *shared)
    return Classes(lse, total, tuple(own))


class _Settings(NamedTuple):
    known: Known
    score: Score
    rows: int
    classes: int
    width: int | None
    logsumexp: bool
    whole: bool
    half: bool
    keep: bool


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, settings: _Settings, labels: Tensor, weights: Tensor | None, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        job, inputs = _job(settings, labels, weights, tensors)
        lse, total, kept = kernels.heads.forward(job, inputs, settings.keep)
        classes = tensors[settings.rows : settings.rows + settings.classes]
        place = labels if settings.whole else labels.clamp(0, classes[0].shape[0] - 1)
        ctx.settings, ctx.given = settings, len(tensors)
        ctx.save_for_backward(labels, weights, lse, *tensors, *kept)
        return lse, total, *(c.index_select(0, place) for c in classes)

    @staticmethod
    def backward(ctx: Any, d_lse: Tensor, d_total: Tensor, *d_own: Tensor) -> tuple[Any, ...]:
        labels, weights, lse, *saved = ctx.saved_tensors
        settings, tensors = ctx.settings, saved[: ctx.given]
        if needs_definition(d_lse, d_total, *d_own):
            end = settings.rows + settings.classes

            def define(*own: Tensor) -> list[Tensor]:
                each = list(own)
                seen = reduce_classes(
                    settings.score, each[: settings.rows], each[settings.rows : end], each[end:], labels,
                    weights=weights, logsumexp=settings.logsumexp, whole=settings.whole,
                )  # fmt: skip
                return [seen.logsumexp, seen.total, *seen.own]

            return (
                None,
                None,
                None,
                *differentiated(define, tensors, ctx.needs_input_grad[3:], (d_lse, d_total, *d_own)),
            )
        job, inputs = _job(settings, labels, weights, tensors)
        kept = kernels.heads.taken(ctx, saved[ctx.given :])
        d_x, d_w, d_amplitude, d_bias, d_sigma = kernels.heads.backward(job, inputs, lse, d_lse, d_total, kept)
        known, start = settings.known, settings.rows
        grads: list[Tensor | None] = [None] * len(tensors)
        grads[0], grads[start] = d_x, d_w.view_as(tensors[start])
        if known.amplitude is not None and d_amplitude is not None:
            grads[known.amplitude] = d_amplitude.view_as(tensors[known.amplitude])
        if known.bias is not None and d_bias is not None:
            grads[start + known.bias] = d_bias.to(tensors[start + known.bias].dtype)
        if known.k is not None and d_sigma is not None:
            grads[start + known.k] = d_sigma.to(tensors[start + known.k].dtype)
        elif d_sigma is not None:
            grads[start + settings.classes] = d_sigma.view_as(tensors[start + settings.classes])
        for place, grad in enumerate(d_own, start):
            if ctx.needs_input_grad[3 + place]:
                here = grads[place]
                here = torch.zeros_like(tensors[place]) if here is None else here
                grads[place] = here.index_add_(0, labels.clamp(0, here.shape[0] - 1), grad)
        wanted = ctx.needs_input_grad[3:]
        return (None,) * 3 + tuple(g if need else None for g, need in zip(grads, wanted, strict=True))


def _job(settings: _Settings, labels: Tensor, weights: Tensor | None, tensors: Any) -> tuple[Pass, Inputs]:
    known, rows, classes = settings.known, tensors[: settings.rows], tensors[settings.rows :]
    w = classes[0]
    rule = Rule(known.kind, known.numbers, known.normalize, 1 if w.dim() == 2 else w.shape[1])
    total = 2 if weights is not None else 0 if settings.logsumexp else 1

    sigma = known.sigma if known.k is None else classes[known.k]

    def row(place: int | None) -> Tensor | None:
        return None if place is None else rows[place].detach().reshape(-1).contiguous()

    inputs = Inputs(
        rows[0].detach().contiguous(),
        w.detach().reshape(-1, w.shape[-1]),
        labels,
        row(known.amplitude),
        row(known.threshold),
        row(known.t),
        None if known.bias is None else classes[known.bias].detach(),
        None if weights is None else weights.float().contiguous(),
        None if sigma is None else sigma.detach().float().reshape(-1).contiguous(),
    )
    return Pass(rule, settings.logsumexp, total, settings.half, settings.width, known.bound), inputs


def polar_rows(x: Tensor) -> tuple[Tensor, Tensor] | None:
    """(‖x‖ with its last dimension kept, x/‖x‖) by one kernel, where it runs; else None."""
    fine = (
        x.dtype == torch.float32
        and usable(x, "heads")
        and 0 < x.shape[-1] <= 4096
        and x.numel() > 0
        and is_plain_eager(x)
    )
    if not fine:
        return None
    direction, length = _Polar.apply(x)
    return length, direction


class _Polar(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        direction, length = kernels.rows.polar(x.detach().reshape(-1, x.shape[-1]).contiguous())
        direction, length = direction.view(x.shape), length.view(*x.shape[:-1], 1)
        ctx.save_for_backward(x, direction, length)
        return direction, length

    @staticmethod
    def backward(ctx: Any, d_direction: Tensor, d_length: Tensor) -> Tensor | None:
        x, direction, length = ctx.saved_tensors
        if needs_definition(d_direction, d_length):
            define = lambda x: (unit(x), norm(x, keepdim=True))  # noqa: E731
            return differentiated(define, [x], [True], (d_direction, d_length))[0]
        flat = (-1, x.shape[-1])
        out = kernels.rows.polar_backward(
            direction.reshape(flat), length.reshape(-1), d_direction.reshape(flat), d_length.reshape(-1)
        )
        return out.view(x.shape)
