"""Compile all kernels of a layer in parallel, before the first of them is needed.

What a layer will launch follows from its tensors, so all compilations can start at the layer's first call, and later
layers start theirs while this one runs. A wrong guess only wastes the time of a thread.
"""

from __future__ import annotations

from typing import Any

import torch

from .plan import Plan, Sum
from .spec import Fields

_WIDE, _SUMS = torch.float32, torch.float64


def compile_ahead(plan: Plan, f: Fields, t: Any, dtype: torch.dtype, track: bool, give_q: bool, learning: bool) -> None:
    """Start compiling everything a layer launches: forward, and backward if it is ``learning``.

    Args:
        plan: The layer's launches.
        f: Its settings.
        t: Its ``Inputs``.
        dtype: The dtype in which x is read.
        track: Whether running statistics are updated.
        give_q: Whether q′ is returned.
        learning: Whether gradients will be needed.
    """
    device, weight = t.x.device, t.weight.dtype
    e, train = plan.epilogue, f.norm == "train"
    k, a, b, gamma, beta, mean, var, leaks, tracked = (
        None if v is None else v.dtype
        for v in (t.k, t.scale, t.shift, t.gamma, t.beta, t.mean, t.var, t.leaks, t.tracked)
    )
    has_s = not f.is_sphere and f.angular != "cosine"
    layer = (dtype, _WIDE, _WIDE if has_s else None, k, a, b)
    table, q = _WIDE if train else None, _WIDE if give_q else None
    at_once = plan.direct and t.q is not None
    if plan.unit is not None:
        maps = (_WIDE, _WIDE) if at_once else (None, None)
        plan.unit.begin(device, weight, dtype, _WIDE, _SUMS, *maps)
    if not plan.depthwise and t.q is None:
        plan.squares.begin(device, dtype, _WIDE)
    counts = _SUMS if f.running and f.training and not f.is_sphere else None
    if not at_once:
        _begin_box(plan.box, device, dtype if plan.depthwise else _WIDE, None, _WIDE, counts, None)
    if train:
        moved = track and mean is not None
        (e.stats_tracking if moved else e.stats).begin(device, *layer, _SUMS, _WIDE, gamma, beta, mean, var, tracked)
    e.apply.begin(device, *layer, gamma, beta, mean, var, table, leaks, dtype, q)
    if not learning:
        return
    if train:
        e.reduce.begin(device, *layer, _SUMS, _WIDE, _WIDE, leaks, dtype, q, gamma, beta)
    else:
        mean, var = (mean, var) if f.norm == "eval" else (None, None)
    summing = any(v is not None for v in (k, a, b, None if train else leaks, gamma if f.norm == "eval" else None))
    needed = any(v is not None and v.requires_grad for v in (t.x, t.q, t.rho))
    gr, gs = _WIDE if needed else None, _WIDE if needed and has_s else None
    back = (_SUMS, table, _WIDE if train else None, leaks, dtype, q, dtype, gr, gs)
    statistics = (None, None) if train else (mean, var)
    (e.grad_summing if summing else e.grad).begin(device, *layer, gamma, beta, *statistics, *back)
    for kind, row in ((k, 7), (a, 5), (b, 6), (leaks, 4)):
        if kind is not None:
            e.row[row].begin(device, _SUMS, kind)
    also = _WIDE if f.is_sphere and plan.groups == 1 else None
    into, x = (dtype, dtype) if plan.depthwise else (_WIDE, None)
    if not plan.direct:
        _begin_box(plan.spread, device, _WIDE, also, into, None, x)
    if plan.unit is not None:
        plan.unit_backward.begin(device, weight, dtype, _WIDE, weight)
    if t.x.requires_grad and not plan.depthwise and (t.q is None or not t.q.requires_grad):
        plan.add.begin(device, dtype, dtype, _WIDE)


def _begin_box(box: Sum, device: torch.device, src: Any, also: Any, dst: Any, sums: Any, x: Any) -> None:
    if box.across is not None:
        box.along.begin(device, src, also, _WIDE, None, None)
        box.across.begin(device, _WIDE, None, dst, sums, x)
    else:
        box.along.begin(device, src, also, dst, sums, x)
