"""s·g(r·⟨w, x⟩) as one step that keeps nothing but its inputs and its own output.

r and s are one-channel maps (1/‖x‖ and h(‖x‖), say). Every built-in g is invertible, so the backward
pass recovers the cosine from the output, which the next layer keeps anyway, and computes g′ anew. If
that output has been overwritten in place by then, the convolution is computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._closed_forms import CLOSED_FORMS
from ._geometry import Geometry, convolve, convolve_backward
from ._sphere import safe_reciprocal, upcast

__all__ = ["composed", "fused"]

_CACHED = 1 << 19  # numbers in a slice: 2 MiB of float32


def composed(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    s: Tensor | None,
    k: Tensor | float,
    form: str,
    g: Geometry,
    c: Tensor | None = None,
) -> Tensor:
    """The same function by plain differentiable operations: the definition, with r·c for r."""
    y = upcast(convolve(x, w, g))
    cos = (y if c is None else y * c) * r
    out = CLOSED_FORMS[form].plain(cos, k)
    return (out if s is None else out * s).to(x.dtype)


def fused(x: Tensor, w: Tensor, r: Tensor, s: Tensor | None, k: Tensor | float, form: str, g: Geometry) -> Tensor:
    """:func:`composed`, in eager mode: fewer passes over memory, less kept for backward."""
    inputs = (x, w, r, s, k)
    if not torch.is_grad_enabled() or not any(isinstance(t, Tensor) and t.requires_grad for t in inputs):
        return _evaluate(*inputs, form, g)
    return _Fused.apply(*inputs, form, g)


def _evaluate(x: Tensor, w: Tensor, r: Tensor, s: Tensor | None, k: Tensor | float, form: str, g: Geometry) -> Tensor:
    y = convolve(x, w, g)
    for part in _parts(y):
        cos = upcast(y[part]).mul_(r[part])
        value = CLOSED_FORMS[form].apply_(cos, k)
        if s is not None:
            value.mul_(s[part])
        if value.dtype != y.dtype:
            y[part] = value
    return y


def _parts(y: Tensor) -> list[slice]:
    """The batch in slices that a CPU's cache holds through the several passes of an epilogue."""
    if y.device.type != "cpu" or y.numel() == 0:
        return [slice(None)]
    step = max(1, _CACHED * y.shape[0] // y.numel())
    return [slice(i, i + step) for i in range(0, y.shape[0], step)]


class _Fused(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, r: Tensor, s: Tensor | None, k: Tensor | float, form: str, g: Geometry
    ) -> Tensor:
        out = _evaluate(x, w, r, s, k, form, g)
        ctx.form, ctx.geometry = form, g
        ctx.k = None if isinstance(k, Tensor) else k
        ctx.save_for_backward(x, w, r, s, k if isinstance(k, Tensor) else None)
        ctx.kept = _keep(out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, w, r, s, k = ctx.saved_tensors
        inputs = (x, w, r, s, ctx.k if k is None else k)
        if torch.is_grad_enabled():  # a second derivative will be asked for: differentiate the definition
            return (*_differentiate(inputs, ctx.needs_input_grad, ctx.form, ctx.geometry, grad), None, None)
        out = ctx.kept.recover() if ctx.kept else None
        ctx.kept = None  # free it now; a second pass over a retained graph computes it again
        if out is None:
            out = _evaluate(*inputs, ctx.form, ctx.geometry)
        return (*_closed_gradients(inputs, out, grad, ctx.needs_input_grad, ctx.form, ctx.geometry), None, None)


def _closed_gradients(
    inputs: tuple[Any, ...], out: Tensor, grad: Tensor, need: Sequence[bool], form: str, g: Geometry
) -> tuple[Tensor | None, ...]:
    x, w, r, s, k = inputs
    pull_back = CLOSED_FORMS[form].pull_back
    grad_y = torch.empty_like(out)
    grad_r = torch.empty_like(r) if need[2] else None
    grad_s = torch.empty_like(s) if need[3] else None
    grad_k = torch.zeros_like(k) if need[4] else None
    inverse_r = safe_reciprocal(r) if need[2] else r
    for part in _parts(out):
        value, upstream = upcast(out[part]), upcast(grad[part])
        if s is not None:
            value = value * safe_reciprocal(s[part])
            if grad_s is not None:
                grad_s[part] = _reduced(upstream * value, s)
            upstream = upstream * s[part]
        cos, through, factor, part_of_k = pull_back(value, upstream, k, need[4])
        if grad_k is not None and part_of_k is not None:
            grad_k.add_(part_of_k)
        if grad_r is not None:
            torch.mul(_reduced(cos * through, r), inverse_r[part] * factor, out=grad_r[part])
        if grad_y.dtype == through.dtype:
            torch.mul(through, r[part] * factor, out=grad_y[part])
        else:
            grad_y[part] = through * (r[part] * factor)
    grad_x, grad_w = convolve_backward(grad_y, x, w, g, (need[0], need[1]))
    return grad_x, grad_w, grad_r, grad_s, grad_k


def _reduced(full: Tensor, like: Tensor) -> Tensor:
    """Sum (N, C, ...) over the channels that a map shares."""
    return full.sum(1, keepdim=True) if like.shape[1] == 1 != full.shape[1] else full


def _differentiate(
    inputs: tuple[Any, ...], need: Sequence[bool], form: str, g: Geometry, grad: Tensor
) -> list[Tensor | None]:
    wanted = [t for t, needed in zip(inputs, need, strict=False) if needed]
    with torch.enable_grad():
        x, w, r, s, k = inputs
        found = iter(torch.autograd.grad(composed(x, w, r, s, k, form, g), wanted, grad, create_graph=True))
    return [next(found) if needed else None for needed in need[:5]]


class _Kept(NamedTuple):
    """An output kept for backward in a node of its own, so that overwriting it can be told from an error."""

    node: Any
    version: int
    address: int

    def recover(self) -> Tensor | None:
        """The output as it was, or None if it has been written to since."""
        try:
            (out,) = self.node.saved_tensors
        except RuntimeError:  # autograd's version check
            return None
        # Saved-tensor hooks switch that check off; a hook that handed the same memory back shows here.
        overwritten = out.data_ptr() == self.address and out._version != self.version
        return None if overwritten else out


def _keep(out: Tensor) -> _Kept:
    with torch.enable_grad():
        anchor = out.new_empty(0).requires_grad_()
        node = _Keep.apply(out.detach(), anchor).grad_fn
    return _Kept(node, out._version, out.data_ptr())


class _Keep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, out: Tensor, anchor: Tensor) -> Tensor:
        ctx.save_for_backward(out)
        return anchor.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None]:
        return None, None
