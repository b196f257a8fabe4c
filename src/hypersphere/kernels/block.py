"""The fused layer itself, forward and backward, as functions of tensors without autograd.

    forward:   (x, q) → (z, q′)          q = Σ_c x² at every position, computed here if it is not given
    backward:  (dz, dq′) → (dx, dq, ...)

Kept for backward: x, the output y of the convolution, and maps and sums that are small beside them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .ahead import compile_ahead
from .branch import Branch, branch
from .launch import aligned, on, stream_of
from .layout import arranged, channels_last, empty
from .plan import EpiloguePlan, Plan, plan_for
from .products import convolve, convolve_backward, unit_weight, unit_weight_backward
from .spec import Spec


class Inputs(NamedTuple):
    """The tensors of a fused layer: the learned ones per filter, BatchNorm's, and the state of h."""

    x: Tensor
    q: Tensor | None
    weight: Tensor
    k: Tensor | None = None
    scale: Tensor | None = None
    shift: Tensor | None = None
    rho: Tensor | None = None
    gamma: Tensor | None = None
    beta: Tensor | None = None
    leaks: Tensor | None = None
    mean: Tensor | None = None
    var: Tensor | None = None
    tracked: Tensor | None = None
    running_norm: Tensor | None = None
    running_count: Tensor | None = None


class Kept(NamedTuple):
    """What backward needs besides the inputs."""

    y: Tensor
    unit: Tensor
    inverse: Tensor
    r: Tensor
    s: Tensor | None
    norms: Tensor | None
    radius: Tensor | None
    sums: Tensor
    table: Tensor | None
    last: bool
    plan: Plan | None = None


class Gradients(NamedTuple):
    """The gradients of x, q, the weight and everything learned, as in :class:`Inputs`."""

    x: Tensor | None = None
    q: Tensor | None = None
    weight: Tensor | None = None
    k: Tensor | None = None
    scale: Tensor | None = None
    shift: Tensor | None = None
    rho: Tensor | None = None
    gamma: Tensor | None = None
    beta: Tensor | None = None
    leaks: Tensor | None = None


def forward(
    spec: Spec, t: Inputs, track: bool = True, give_q: bool = True, group: Any = None, learning: bool = True
) -> tuple[Tensor, Tensor | None, Tensor, Kept]:
    """Return z, q′ (if ``give_q``), x as it was read, and what backward needs.

    Args:
        spec: The layer.
        t: Its tensors; x has the dtype to compute in.
        track: Whether to update BatchNorm's running statistics and h's running norm.
        give_q: Whether to return q′.
        group: Processes over whose batches BatchNorm's statistics are taken, if any.
        learning: Whether gradients will be needed; if so, their kernels are compiled in parallel with these. If not, z
            takes the place of y.
    """
    f = spec.fields
    last = channels_last(t.x) or _weight_decides(t)
    x, weight = arranged(t.x, last), t.weight
    plan = plan_for(spec, x, weight, last)
    if (track, give_q, learning) not in plan.begun:
        plan.begun.add((track, give_q, learning))
        if x.is_cuda:
            compile_ahead(plan, f, t, x.dtype, track, give_q, learning)
    with on(x.device):
        stream = stream_of(x, aligned(x, weight, t.q, t.k, t.scale, t.shift, t.gamma, t.beta, t.leaks, t.mean, t.var))
        sums = torch.empty(plan.epilogue.sums, dtype=torch.float64, device=x.device)
        counts = f.running and f.training  # counted in sums, which unit_weight sets to 0
        beside = None if counts else branch(x.device, stream)
        maps = None if beside is None else _maps(plan, f, t, x, sums, track, beside.stream)
        unit, inverse = unit_weight(plan, f.unit, x, weight, sums, stream)
        y = arranged(convolve(x, unit, plan), last)
        if beside is not None:
            beside.join()
        r, s, norms, radius, *_ = maps or _maps(plan, f, t, x, sums, track, stream)
        tensors = (y, r, s, t.k, t.scale, t.shift)
        table = _statistics(plan, tensors, t, sums, track, group, stream) if f.norm == "train" else None
        z = torch.empty_like(y) if learning else y  # in its place where nothing asks for y later
        q = y.new_empty((y.shape[0], 1, *y.shape[2:]), dtype=torch.float32) if give_q else None
        plan.epilogue.apply(stream, *tensors, t.gamma, t.beta, t.mean, t.var, table, t.leaks, z, q)
    return z, q, x, Kept(y, unit, inverse, r, s, norms, radius, sums, table, last, plan)


def backward(
    spec: Spec,
    t: Inputs,
    kept: Kept,
    dz: Tensor | None,
    dq: Tensor | None,
    need: tuple[bool, ...],
    fresh: bool = True,
    group: Any = None,
) -> Gradients:
    """Return the gradients that ``need`` selects, in the order of :class:`Gradients`.

    Args:
        spec, t, kept: The arguments and results of forward (``t.x`` is the x that it returned).
        dz, dq: Gradients of z and q′.
        need: Whether each gradient is needed.
        fresh: Whether the sums of the backward pass are still 0 (False in a second backward pass).
        group: As in :func:`forward`.
    """
    f, x, y, last = spec.fields, t.x, kept.y, kept.last
    plan = kept.plan or plan_for(spec, x, t.weight, last)
    e = plan.epilogue
    c = e.channels
    with on(x.device):
        dz = torch.zeros_like(y) if dz is None else arranged(dz, last)
        stream = stream_of(x, aligned(x, dz, dq, t.weight, t.k, t.scale, t.shift, t.gamma, t.beta, t.leaks))
        sums = kept.sums
        if not fresh:
            sums = torch.zeros_like(kept.sums)
            if group is not None:
                sums[-5] = kept.sums[-5]
        tensors = (y, kept.r, kept.s, t.k, t.scale, t.shift)
        dgamma = dbeta = None
        if t.gamma is not None and (need[7] or need[8]):
            dgamma, dbeta = torch.empty_like(t.gamma), torch.empty_like(t.gamma)
        rest = None
        if f.norm == "train":
            rest = torch.empty(2 * c, dtype=torch.float32, device=x.device)
            own = (dgamma, dbeta)
            dgamma, dbeta = _sums_of_gradients(plan, tensors, t, sums, kept.table, rest, dz, dq, own, group, stream)
        wants_maps = need[0] or need[1] or need[6]
        gr = gs = None
        if wants_maps:
            per_channel = plan.groups not in (1, c)
            shape = plan.map_shape if not per_channel else y.shape
            gr = _map_like(shape, y, last)
            gs = _map_like(shape, y, last) if kept.s is not None else None
        summing = any(need[3:6]) or (f.norm != "train" and (need[9] or (f.norm == "eval" and dgamma is not None)))
        dy = torch.empty_like(y)
        grad = e.grad if not summing else e.grad_summing if group is None else e.grad_together
        grad(
            stream, *tensors, t.gamma, t.beta, t.mean, t.var, sums, kept.table, rest, t.leaks, dz, dq, dy, gr, gs,
        )  # fmt: skip
        if gr is not None and gr.shape != plan.map_shape:
            gr, gs = _grouped(gr, plan), None if gs is None else _grouped(gs, plan)
        beside = branch(x.device, stream) if need[0] else None
        if beside is None:
            dx, dunit = convolve_backward(dy, x, kept.unit, plan, (need[0], need[2]))
            dq_in = _through_norms(plan, f, t, kept, gr, gs, need, sums, dx, stream) if wants_maps else None
            dweight = (
                None if dunit is None else unit_weight_backward(plan, f.unit, t.weight, dunit, kept.inverse, stream)
            )
        else:
            dx, dweight, dq_in = _side_by_side(plan, f, t, kept, dy, gr, gs, need, sums, beside)
        dgiven = dq_in[0] if dq_in is not None and t.q is not None and not plan.depthwise else None
        if dq_in is not None and dgiven is None and dx is not None and not plan.depthwise:
            plan.add(stream, dx, x, dq_in[0])
        if f.norm == "eval" and dgamma is not None:
            dgamma, dbeta = _eval_gradients(_rows(sums, e), f.eps, t)
    return Gradients(
        dx,
        dgiven,
        dweight,
        _row(sums, e, 7, t.k) if need[3] else None,
        _row(sums, e, 5, t.scale) if need[4] else None,
        _row(sums, e, 6, t.shift) if need[5] else None,
        _radius_gradient(sums, kept.radius, t.rho) if need[6] else None,
        dgamma if need[7] else None,
        dbeta if need[8] else None,
        _row(sums, e, 4, t.leaks) if need[9] else None,
    )


def _side_by_side(
    plan: Plan,
    f: Any,
    t: Inputs,
    kept: Kept,
    dy: Tensor,
    gr: Any,
    gs: Any,
    need: tuple[bool, ...],
    sums: Tensor,
    beside: Branch,
) -> tuple[Tensor | None, Tensor | None, tuple[Tensor, ...] | None]:
    """The gradient of x on the current stream; those of the norms and the weight in parallel with it."""
    dweight = dq_in = None
    if not plan.depthwise:
        dq_in = _through_norms(plan, f, t, kept, gr, gs, need, sums, None, beside.stream)
    if need[2]:
        with torch.cuda.stream(beside.side):
            _, dunit = convolve_backward(dy, t.x, kept.unit, plan, (False, True))
            assert dunit is not None
            dweight = unit_weight_backward(plan, f.unit, t.weight, dunit, kept.inverse, beside.stream)
    dx, _ = convolve_backward(dy, t.x, kept.unit, plan, (True, False))
    if plan.depthwise:
        dq_in = _through_norms(plan, f, t, kept, gr, gs, need, sums, dx, beside.main.cuda_stream)
    beside.join()
    return dx, dweight, dq_in


def _weight_decides(t: Inputs) -> bool:
    """Whether the weight decides the memory format: cuDNN computes channels last if x or the weight is."""
    return t.x.dim() in (4, 5) and channels_last(t.weight)


def _statistics(
    plan: Plan, tensors: tuple[Any, ...], t: Inputs, sums: Tensor, track: bool, group: Any, stream: int | None
) -> Tensor:
    """BatchNorm's table: see device/statistics.py."""
    e = plan.epilogue
    table = torch.empty(4 * e.channels, dtype=torch.float32, device=sums.device)
    norm = (t.gamma, t.beta, t.mean, t.var, t.tracked)
    track = track and t.mean is not None
    if group is None:
        (e.stats_tracking if track else e.stats)(stream, *tensors, sums, table, *norm)
    else:
        e.stats_alone(stream, *tensors, sums, table, *norm)
        _sum_over(sums, group, (0, 2), e)
        (e.finish_tracking if track else e.finish)(stream, sums, table, None, *norm, None, None)
    return table


def _sums_of_gradients(
    plan: Plan,
    tensors: tuple[Any, ...],
    t: Inputs,
    sums: Tensor,
    table: Tensor | None,
    rest: Tensor,
    dz: Tensor,
    dq: Tensor | None,
    grads: tuple[Any, Any],
    group: Any,
    stream: int | None,
) -> tuple[Any, Any]:
    """The backward rows of the table; γ's and β's gradients, of this process alone."""
    e, c = plan.epilogue, plan.epilogue.channels
    if group is None:
        e.reduce(stream, *tensors, sums, table, rest, t.leaks, dz, dq, *grads)
        return grads
    e.reduce_alone(stream, *tensors, sums, table, rest, t.leaks, dz, dq, None, None)
    dgamma, dbeta = grads
    if dgamma is not None and table is not None:
        own, along = _rows(sums, e)[2:4]
        dgamma, dbeta = ((along - table[:c] * own) * table[c : 2 * c]).to(dgamma.dtype), own.to(dbeta.dtype)
    _sum_over(sums, group, (2, 4), e)
    e.finish_backward(stream, sums, table, rest, None, None, None, None, None, None, None)
    return dgamma, dbeta


def _maps(plan: Plan, f: Any, t: Inputs, x: Tensor, sums: Tensor, track: bool, stream: int | None) -> tuple[Any, ...]:
    """r, s, the norms and the radius; then tensors to keep alive while the stream works on them."""
    if plan.depthwise:
        source = x
    elif t.q is not None:
        source = t.q
    else:
        source = _map_like(plan.q_shape, x, plan.last)
        plan.squares(stream, x, source)
    found = _map_like(plan.map_shape, x, plan.last)
    if f.is_sphere:
        partial = plan.box(stream, source, None, found, None, None)
        return found, None, None, None, source, partial
    total = sums[-4:]
    partial = plan.box(stream, source, None, found, total if f.running and f.training else None, None)
    r = torch.empty_like(found)
    s = None if f.angular == "cosine" else torch.empty_like(found)
    radius = torch.empty((), dtype=torch.float32, device=x.device)
    (plan.magnitude_tracking if track else plan.magnitude)(
        stream, found, t.rho, total, t.running_norm, t.running_count, radius, r, s
    )
    return r, s, found, radius, source, partial


def _through_norms(
    plan: Plan,
    f: Any,
    t: Inputs,
    kept: Kept,
    gr: Any,
    gs: Any,
    need: tuple[bool, ...],
    sums: Tensor,
    dx: Tensor | None,
    stream: int | None,
) -> tuple[Any, ...] | None:
    """The gradient of q, if it or the gradient of x is needed; then tensors to keep alive while the stream works.

    Where each channel has its own norms, the gradient is added to dx instead.
    """
    also: Tensor | None = kept.r
    if not f.is_sphere:
        out = torch.empty_like(gr)
        total = sums[-3:] if need[6] else None
        plan.magnitude_backward(stream, kept.norms, kept.radius, gr, gs, out, total)
        gr, also = out, None
    given = t.q is not None and not plan.depthwise
    if not (need[1] if given else need[0]):
        return None
    dq = dx if plan.depthwise else _map_like(plan.q_shape, t.x, plan.last)
    partial = plan.spread(stream, gr, also, dq, None, t.x if plan.depthwise else None)
    return dq, gr, partial


def _map_like(shape: Any, like: Tensor, last: bool) -> Tensor:
    return empty(shape, torch.float32, like.device, last and shape[1] > 1)


def _grouped(m: Tensor, plan: Plan) -> Tensor:
    """A map of channels, summed over the channels of each group."""
    return arranged(m.unflatten(1, (plan.groups, -1)).sum(2), plan.last)


def _row(sums: Tensor, e: EpiloguePlan, row: int, like: Tensor | None) -> Tensor | None:
    """A row of sums, added up over its copies, in the dtype and shape of ``like``."""
    if like is None:
        return None
    size = e.slots * e.channels
    copies = sums[row * size : (row + 1) * size].view(e.slots, e.channels)
    each = like.numel() == e.channels
    total = copies.sum(0, dtype=torch.float32) if each else copies.sum(dtype=torch.float32)
    return total.reshape(like.shape).to(like.dtype)


def _radius_gradient(sums: Tensor, radius: Tensor | None, rho: Tensor | None) -> Tensor | None:
    if rho is None or radius is None:
        return None
    return (sums[-3] * (radius / rho)).to(rho.dtype).reshape(rho.shape)


def _eval_gradients(rows: Tensor, eps: float, t: Inputs) -> tuple[Tensor, Tensor]:
    assert t.gamma is not None
    assert t.mean is not None
    assert t.var is not None
    over = (t.var.double() + eps).rsqrt()
    along = (rows[3] - t.mean.double() * rows[2]) * over
    return along.to(t.gamma.dtype), rows[2].to(t.gamma.dtype)


def _rows(sums: Tensor, e: EpiloguePlan) -> Tensor:
    """The eight rows of sums, each added up over its copies."""
    return sums[: 8 * e.slots * e.channels].view(8, e.slots, e.channels).sum(1)


def _sum_over(sums: Tensor, group: Any, rows: tuple[int, int], e: EpiloguePlan) -> None:
    """Add up two rows of the sums, and in forward the count, over the processes of ``group``."""
    copies = sums[: 8 * e.slots * e.channels].view(8, e.slots, e.channels)[rows[0] : rows[1]]
    message = torch.cat([copies.sum(1).flatten(), sums.new_full((1,), float(e.count))])
    torch.distributed.all_reduce(message, group=group)
    copies.zero_()
    copies[:, 0] = message[:-1].view(2, -1)
    sums[-5:-4] = message[-1:]
