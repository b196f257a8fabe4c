"""The fused layer itself, forward and backward, as functions of tensors without autograd.

    forward:   (x, q) → (z, q′)          q = Σ_c x² at every position, computed here if it is not given
    backward:  (dz, dq′) → (dx, dq, ...)

Kept for backward: x, the output y of the convolution, and maps and sums that are small beside them, in one buffer.
The launches of a pass take tensors at first and addresses later (:mod:`.mode`): names without a type stand for either.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .branch import branch
from .launch import is_elsewhere, stream_for, written
from .layout import arranged
from .mode import LEARNED, Mode, Noted, backward_mode, mode_for
from .plan import Plan
from .products import convolve, convolve_backward, unit_weight, unit_weight_backward
from .spec import Spec
from .together import statistics_of_all, sums_of_gradients


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
    """What backward needs besides the inputs: y, the unit weight, the buffer of small things, and how it went."""

    y: Tensor
    unit: Tensor
    memory: Tensor
    mode: Mode | None = None


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
    mode = mode_for(spec, t, track, give_q, learning)
    plan = mode.plan
    if is_elsewhere(plan.index):
        with torch.cuda.device(plan.index):
            return forward(spec, t, track, give_q, group, learning)
    if not plan.dense:
        t = t._replace(x=arranged(t.x, plan.last), weight=arranged(t.weight, plan.weight_last))
    x = t.x
    memory = plan.like.new_empty(plan.kept.size)
    small = memory.new_empty(mode.scratch.size) if mode.scratch.size else memory
    stream, run, at, given = _begin(mode, t, group)
    x_, q_, w, k, a, b, rho, gamma, beta, leaks, mean, var, tracked, norm, batches = given
    sums, total, table, inverse, r, s, norms, radius = _pieces(plan, memory, at)
    source, between = _pieces(mode.scratch, small, at)
    at_once = plan.direct and t.q is not None
    if plan.unit is None:
        unit = unit_weight(plan, t.weight, x.dtype, memory)
    else:
        unit = x.new_empty_strided(plan.unit_shape, plan.unit_stride)
        run.unit(stream, w, at(unit), inverse, sums, *((q_, r) if at_once else (None, None)))
    beside = None if at_once else branch(plan.device, stream)
    side = stream if beside is None else beside.stream
    if source is not None:
        run.squares(side, x_, source)
    else:
        source = x_ if plan.depthwise else q_
    partial = () if between is None else (between,)
    if plan.is_sphere and not at_once:
        run.box(side, source, None, r, None, None, *partial)
    elif not plan.is_sphere:
        run.box(side, source, None, norms, total if plan.counts else None, None, *partial)
        run.magnitude(side, norms, rho, total, norm, batches, radius, r, s)
    y = convolve(x, unit, plan)
    if y.stride() != plan.y_stride:
        y = arranged(y, plan.last)
    if beside is not None:
        beside.join()
    y_ = at(y)
    if plan.is_train and group is None:
        run.stats(stream, y_, r, s, k, a, b, sums, table, gamma, beta, mean, var, tracked)
    elif plan.is_train:
        statistics_of_all(plan, (y_, r, s, k, a, b, sums, table), t, track, group, stream)
    z = torch.empty_like(y) if learning else y  # in its place where nothing asks for y later
    q = memory.new_empty_strided(plan.given_shape, plan.given_stride) if give_q else None
    out = None if q is None else at(q)
    run.apply(stream, y_, r, s, k, a, b, gamma, beta, mean, var, table, leaks, at(z), out)
    if at is _itself and group is None:
        run.end()
    if track and (plan.is_train or plan.counts):
        written(*t[10:13] if plan.is_train else (), *t[13:] if plan.counts else ())
    return z, q, x, Kept(y, unit, memory, mode)


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
    there = kept.mode or mode_for(spec, t, False, True, True)
    plan, y, unit, memory = there.plan, kept.y, kept.unit, kept.memory
    if is_elsewhere(plan.index):
        with torch.cuda.device(plan.index):
            return backward(spec, t, kept, dz, dq, need, fresh, group)
    if dz is None:
        dz = torch.zeros_like(y)
    elif dz.stride() != plan.y_stride:
        dz = arranged(dz, plan.last)
    if y.stride() != plan.y_stride:  # what was saved may come back in another order, e.g. from the CPU
        y = arranged(y, plan.last)
    if unit.stride() != plan.unit_stride and plan.unit is not None:
        unit = arranged(unit, plan.weight_last or plan.weight_moves)
    x, weight = arranged(t.x, plan.last), arranged(t.weight, plan.weight_last)
    mode = backward_mode(there, t, need, dq is not None, group is not None)
    small = plan.like.new_empty(plan.back.size)
    again = None
    if (mode.sums or plan.is_train) and not (fresh and group is None):
        again = _cleared(plan, memory, group)  # of several processes: written here
    tensors = (x, weight, t.k, t.scale, t.shift, t.gamma, t.beta, t.leaks, t.mean, t.var, dz, dq)
    stream, run, at, given = _begin(mode, tensors, group)
    x_, w, k, a, b, gamma, beta, leaks, mean, var, dz_, dq_ = given
    sums, _, table, inverse, r, s, norms, radius = _pieces(plan, memory, at)
    rest, gr, gs, through, between = _pieces(plan.back, small, at)
    if again is not None:
        sums = at(again)
    slope = sums[-3:] if at is _itself else sums + plan.offsets[1] + 8
    y_ = at(y)
    dgamma = dbeta = into = onto = None
    if t.gamma is not None and (need[7] or need[8]):
        dgamma, dbeta = torch.empty_like(t.gamma), torch.empty_like(t.gamma)
        into, onto = at(dgamma), at(dbeta)
    if plan.is_train and group is None:
        run.reduce(stream, y_, r, s, k, a, b, sums, table, rest, leaks, dz_, dq_, into, onto)
    elif plan.is_train:
        passed = (y_, r, s, k, a, b, sums, table, rest, leaks, dz_, dq_)
        dgamma, dbeta = sums_of_gradients(plan, passed, dgamma, dbeta, group, stream)
    wants_maps, apart = need[0] or need[1] or need[6], None
    if not wants_maps:
        gr = gs = None
    elif plan.per_channel:
        apart = [torch.empty_like(y, dtype=torch.float32) for _ in range(1 if s is None else 2)]
        gr, gs = at(apart[0]), None if s is None else at(apart[1])
    dq_in = None
    if wants_maps and not plan.depthwise and (need[0] if t.q is None else need[1]):
        dq_in = memory.new_empty_strided(plan.q_shape, plan.q_stride)  # before the branch, which writes it: after it,
        # this memory could be what the convolution beside it works with
    if plan.direct:
        gr = None if dq_in is None else at(dq_in)
    dy = torch.empty_like(y)
    run.grad(stream, y_, r, s, k, a, b, gamma, beta, mean, var, sums, table, rest, leaks, dz_, dq_, at(dy), gr, gs)
    if apart is not None:
        apart = [arranged(m.unflatten(1, (plan.groups, -1)).sum(2), plan.last) for m in apart]
        gr, gs = at(apart[0]), None if s is None else at(apart[1])
    beside = branch(plan.device, stream) if need[0] else None
    dx, dunit = convolve_backward(dy, x, unit, plan, (need[0], need[2] and beside is None))
    if wants_maps:
        side, also = stream if beside is None or plan.depthwise else beside.stream, r if plan.groups == 1 else None
        if not plan.is_sphere:
            run.magnitude(side, norms, radius, gr, gs, through, slope if need[6] else None)
            gr, also = through, None
        partial = () if between is None else (between,)
        if plan.depthwise and dx is not None:  # each channel has its own norms, whose gradient is added to dx
            run.spread(side, gr, also, at(dx), None, x_, *partial)
        elif dq_in is not None and not plan.direct:
            run.spread(side, gr, also, at(dq_in), None, None, *partial)
    dweight = None
    if beside is None:
        if dunit is not None:
            dweight = _weight_gradient(plan, run, weight, w, dunit, inverse, memory, at, stream)
    else:
        if need[2]:
            with torch.cuda.stream(beside.side):
                _, dunit = convolve_backward(dy, x, unit, plan, (False, True))
                assert dunit is not None
                dweight = _weight_gradient(plan, run, weight, w, dunit, inverse, memory, at, beside.stream)
        beside.join()
    if dq_in is not None and t.q is None:
        run.add(stream, at(dx), x_, at(dq_in))
        dq_in = None
    learned: dict[str, Tensor] = {}
    for name, row in LEARNED.items() if mode.sums else ():
        like = getattr(t, name)
        if like is not None and need[Gradients._fields.index(name)]:
            learned[name] = torch.empty_like(like)
            getattr(run, f"row{row}")(stream, sums, at(learned[name]))
    if at is _itself and group is None:
        run.end()
    drho = None
    if need[6] or (mode.sums and spec.fields.norm == "eval" and dgamma is not None):
        held = again if again is not None else plan.views(memory)[0]
        if spec.fields.norm == "eval" and dgamma is not None:
            dgamma, dbeta = _eval_gradients(plan.rows(held), spec.fields.eps, t)
        drho = _radius_gradient(held, plan.views(memory)[-1], t.rho) if need[6] else None
    return Gradients(
        dx,
        dq_in,
        dweight,
        rho=drho,
        gamma=dgamma if need[7] else None,
        beta=dbeta if need[8] else None,
        **learned,
    )


def _begin(mode: Mode, tensors: Any, group: Any) -> tuple[int | None, Any, Any, Any]:
    """The stream, the launches of a pass, what they take of a tensor, and that of all these tensors."""
    addresses = [None if v is None else v.data_ptr() for v in tensors]
    stream = stream_for(mode.plan.index, addresses)
    if mode.ready is None or stream is None or group is not None:
        return stream, Noted(mode), _itself, tensors
    return stream, mode.ready, Tensor.data_ptr, addresses


def _pieces(where: Any, memory: Tensor, at: Any) -> Any:
    """The pieces of a buffer in the form that launches take."""
    return where.views(memory) if at is _itself else where.at(memory.data_ptr())


def _itself(tensor: Tensor) -> Tensor:
    return tensor


def _cleared(plan: Plan, memory: Tensor, group: Any) -> Tensor:
    """Sums that are 0, for another backward pass."""
    sums = plan.views(memory)[0]
    again = torch.zeros_like(sums)
    if group is not None:
        again[-5] = sums[-5]
    return again


def _weight_gradient(
    plan: Plan,
    run: Any,
    weight: Tensor,
    w: Any,
    dunit: Tensor,
    inverse: Any,
    memory: Tensor,
    at: Any,
    stream: Any,
) -> Tensor:
    if plan.unit is None:
        return unit_weight_backward(plan, weight, dunit, memory)
    if dunit.stride() != plan.unit_stride:
        dunit = arranged(dunit, plan.weight_last or plan.weight_moves)
    out = torch.empty_like(weight)
    run.unit(stream, w, at(dunit), inverse, at(out))
    return out


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
