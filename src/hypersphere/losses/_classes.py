"""One pass over the classes: what a head needs to know of them, per sample, without the N × C logits.

A loss reads three things of the class axis: log Σ e^u over the other classes, a weighted Σ u over them, and what
belongs to the target's own class (its vector, bias, ...). :func:`reduce_classes` computes these, densely or a block of
classes at a time with the block recomputed in backward. Second derivatives, forward mode and function transforms are
dense always.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from .._core.modes import differentiated, is_transformed, needs_definition, without_autocast

Score: TypeAlias = Callable[[list[Tensor], list[Tensor], list[Tensor]], Tensor]
"""score(row tensors (N, ...), class tensors (B, ...), shared scalars) -> (N, B), of any block of B classes."""

AUTO_LOGITS = {"cpu": 1 << 22, "other": 1 << 26}
AUTO_BLOCK = {"cpu": 1 << 19, "other": 1 << 25}


class Classes(NamedTuple):
    """Per sample: log Σ_{j≠y} e^{u_j}, Σ_{j≠y} q_j·u_j, and each of the class tensors at y."""

    logsumexp: Tensor
    total: Tensor
    own: tuple[Tensor, ...]


def block_width(chunk: int | str | None, samples: int, classes: int, device: torch.device) -> int | None:
    """How many classes to take at a time; None is all, the dense way.

    ``"auto"`` is dense up to 2²² logits on a CPU and 2²⁶ elsewhere; beyond, blocks hold about 2¹⁹ logits
    on a CPU (they stay in its cache) and 2²⁵ elsewhere (they fill a GPU).
    """
    if chunk == "auto":
        kind = "cpu" if device.type == "cpu" else "other"
        if samples * classes <= AUTO_LOGITS[kind]:
            return None
        return max(AUTO_BLOCK[kind] // max(samples, 1), 128)
    return chunk if isinstance(chunk, int) else None


def reduce_classes(
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
) -> Classes:
    """Reduce u = score(...) over the classes j ≠ y; ``classes[0]`` are the class vectors.

    ``weights`` are the q_j of the total (None: no total unless ``logsumexp`` is off, then q = 1).
    A label outside [0, C) excludes nothing: so a process that owns some of the classes calls this with
    labels shifted to its own, and the reductions of all add up. ``whole`` says that these are all the classes: then
    a label outside is a mistake, and fails where the target's vector is read.
    """
    wanted = _Wanted(logsumexp, weights is not None or not logsumexp, whole)
    if width is not None and not is_transformed(*rows, *classes, *shared):
        counts = (len(rows), len(classes))
        lse, total, *own = _Blockwise.apply(score, counts, width, wanted, labels, weights, *rows, *classes, *shared)
        return Classes(lse, total, tuple(own))
    return _dense(score, rows, classes, shared, labels, weights, wanted)


class _Wanted(NamedTuple):
    """Which reductions, and whether all classes are there."""

    logsumexp: bool
    total: bool
    whole: bool


def _dense(
    score: Score,
    rows: list[Tensor],
    classes: list[Tensor],
    shared: list[Tensor],
    labels: Tensor,
    weights: Tensor | None,
    wanted: _Wanted,
) -> Classes:
    u = score(rows, classes, shared)
    lse = total = u.new_zeros(u.shape[0])
    if wanted.logsumexp:
        lse = _replace(u, labels, _floor(u.dtype)).logsumexp(1)
    if wanted.total:
        kept = _replace(u, labels, 0.0)
        total = kept.sum(1) if weights is None else kept @ weights
    return Classes(lse, total, _own(classes, labels, wanted))


class _Blockwise(torch.autograd.Function):
    """Blocks of classes with a running log-sum-exp; backward scores each block again and differentiates it."""

    @staticmethod
    def forward(
        ctx: Any,
        score: Score,
        counts: tuple[int, int],
        width: int,
        wanted: _Wanted,
        labels: Tensor,
        weights: Tensor | None,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        rows, classes, shared = _split(tensors, counts)
        ctx.settings = (score, counts, width, wanted)
        vectors = classes[0]
        largest = rows[0].new_full((rows[0].shape[0],), _floor(rows[0].dtype))
        scale, total = torch.zeros_like(largest), torch.zeros_like(largest)
        for start in range(0, vectors.shape[0], width):
            block = slice(start, min(start + width, vectors.shape[0]))
            u = score(rows, [c[block] for c in classes], shared)
            if wanted.total:
                u = _replace_(u, labels - start, 0.0)
                total = total + (u.sum(1) if weights is None else u @ weights[block])
            if wanted.logsumexp:
                u = _replace_(u, labels - start, _floor(u.dtype))
                higher = torch.maximum(largest, u.amax(1))
                scale = scale * (largest - higher).exp() + u.sub_(higher[:, None]).exp_().sum(1)
                largest = higher
        lse = largest + scale.log() if wanted.logsumexp else torch.zeros_like(largest)
        ctx.save_for_backward(labels, weights, lse, *tensors)
        return lse, total, *_own(classes, labels, wanted)

    @staticmethod
    def backward(ctx: Any, d_lse: Tensor, d_total: Tensor, *d_own: Tensor) -> tuple[Any, ...]:
        labels, weights, lse, *tensors = ctx.saved_tensors
        score, counts, width, wanted = ctx.settings
        if not torch.compiler.is_compiling() and needs_definition(d_lse, d_total, *d_own):

            def define(*own: Tensor) -> list[Tensor]:
                with without_autocast(labels.device):
                    lse, total, at_labels = _dense(score, *_split(own, counts), labels, weights, wanted)
                return [lse, total, *at_labels]

            found = differentiated(define, tensors, ctx.needs_input_grad[6:], (d_lse, d_total, *d_own))
            return *((None,) * 6), *found
        needed = ctx.needs_input_grad[6:]
        _, classes, _ = _split(tensors, counts)
        of_classes = range(counts[0], counts[0] + counts[1])
        sums = [
            None if not need else torch.empty_like(t) if place in of_classes else torch.zeros_like(t)
            for place, (t, need) in enumerate(zip(tensors, needed, strict=True))
        ]
        with without_autocast(lse.device):
            for start in range(0, classes[0].shape[0], width):
                block = slice(start, min(start + width, classes[0].shape[0]))
                parts = [t[block] if place in of_classes else t for place, t in enumerate(tensors)]
                u, pull = _pullback(score, counts, parts, needed)
                d_u = (u - lse[:, None]).exp_().mul_(d_lse[:, None]) if wanted.logsumexp else torch.zeros_like(u)
                if wanted.total:
                    d_u += d_total[:, None] if weights is None else d_total[:, None] * weights[block]
                for place, part in pull(_replace_(d_u, labels - start, 0.0)):
                    sum_ = sums[place]
                    if sum_ is not None and place in of_classes:
                        sum_[block] = part
                    elif sum_ is not None:
                        sum_.add_(part)
            for place, grad in zip(of_classes, d_own, strict=True):
                sum_ = sums[place]
                if sum_ is not None:
                    sum_.index_add_(0, labels.clamp(0, classes[0].shape[0] - 1), grad)
        return (None,) * 6 + tuple(sums)


Pull: TypeAlias = Callable[[Tensor], list[tuple[int, Tensor]]]


def _pullback(score: Score, counts: tuple[int, int], tensors: list[Tensor], needed: Sequence[bool]) -> tuple[Any, Pull]:
    """u of a block, and what gives the gradient (place, of that tensor) from that of u."""
    places = [place for place, need in enumerate(needed) if need]

    def of_needed(*values: Tensor) -> Tensor:
        whole = list(tensors)
        for place, value in zip(places, values, strict=True):
            whole[place] = value
        return score(*_split(whole, counts))

    if torch.compiler.is_compiling():  # torch.func.vjp in eager mode would import the compiler
        u, pull, *_ = torch.func.vjp(of_needed, *[tensors[place] for place in places])
        return u, lambda d_u: list(zip(places, pull(d_u), strict=True))
    with torch.enable_grad():
        leaves = [tensors[place].detach().requires_grad_() for place in places]
        u = of_needed(*leaves)

    def pull_back(d_u: Tensor) -> list[tuple[int, Tensor]]:
        if not u.requires_grad:
            return [(place, torch.zeros_like(tensors[place])) for place in places]
        found = torch.autograd.grad(u, leaves, d_u, allow_unused=True, materialize_grads=True)
        return list(zip(places, found, strict=True))

    return u.detach(), pull_back


def _split(tensors: Any, counts: tuple[int, int]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    rows, classes = counts
    return list(tensors[:rows]), list(tensors[rows : rows + classes]), list(tensors[rows + classes :])


def _own(classes: list[Tensor], labels: Tensor, wanted: _Wanted) -> tuple[Tensor, ...]:
    """Each class tensor at the labels."""
    place = labels if wanted.whole else labels.clamp(0, classes[0].shape[0] - 1)
    return tuple(c.index_select(0, place) for c in classes)


def _replace(u: Tensor, labels: Tensor, value: float) -> Tensor:
    """u with ``value`` in column labels[i] of row i, where there is such a column."""
    return u.scatter(1, *_at(u, labels, value))


def _replace_(u: Tensor, labels: Tensor, value: float) -> Tensor:
    """The same in place, for blocks that nothing else holds."""
    return u.scatter_(1, *_at(u, labels, value))


def _at(u: Tensor, labels: Tensor, value: float) -> tuple[Tensor, Tensor]:
    column = labels.clamp(0, u.shape[1] - 1)[:, None]
    inside = (labels >= 0) & (labels < u.shape[1])
    return column, torch.where(inside[:, None], value, u.gather(1, column))


def _floor(dtype: torch.dtype) -> float:
    """A finite "−∞": e^(floor − u) is 0 for any logit, and nothing becomes NaN when there is one class only."""
    return torch.finfo(dtype).min / 2
