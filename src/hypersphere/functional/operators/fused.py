"""s·g(r·⟨w, x⟩) as one step that keeps nothing but its inputs and its own output.

r and s are one-channel maps (h(‖x‖)/‖x‖, say); r may be given as 1/n. Every built-in g is invertible,
so the backward pass recovers the cosine from the output, which the next layer keeps anyway, and
computes g′ again. If that output has been overwritten in place by then, the convolution is computed again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..._core.modes import differentiated, is_exporting, is_transformed, needs_definition
from ..._core.sphere import compute_dtype, safe_reciprocal, upcast
from .closed_forms import CLOSED_FORMS
from .geometry import Geometry, convolve, convolve_backward

_CACHED = 1 << 19  # numbers in a slice: 2 MiB of float32


class Maps(NamedTuple):
    """What multiplies the inner product, r or 1/n (one of them is None), and what multiplies g, s."""

    r: Tensor | None
    n: Tensor | None
    s: Tensor | None


def composed(x: Tensor, w: Tensor, maps: Maps, k: Tensor | float, form: str, g: Geometry) -> Tensor:
    """The same function by plain differentiable operations: the definition."""
    y = _bounded_product(x, w, g) if x.dtype == torch.float16 and _may_bound(x, w) else convolve(x, w, g)
    out = CLOSED_FORMS[form].plain(scaled(upcast(y), maps), k)
    return (out if maps.s is None else out * maps.s).to(x.dtype)


def _may_bound(x: Tensor, w: Tensor) -> bool:
    """Compilers take a Function, but not below a function transform; exporters need none."""
    if torch.compiler.is_compiling():
        return not is_exporting() and not torch._C._are_functorch_transforms_active()
    return is_transformed(x, w)


def _bounded_product(x: Tensor, w: Tensor, g: Geometry) -> Tensor:
    """⟨w, x⟩ in float16, whose gradients stop at the largest number, as those of :class:`_Fused` do."""
    kind = _Bounded if torch.compiler.is_compiling() else _Transformed
    return kind.apply(convolve(kind.apply(x), kind.apply(w), g))


class _Bounded(torch.autograd.Function):
    """The identity. At cos = ±1 gradients are large, and what is made of them next cancels: infinities would be NaN."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None: ...

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        limit = torch.finfo(grad.dtype).max
        return grad.clamp(-limit, limit)


class _Transformed(_Bounded):
    """The same in forward mode, too; compilers take no Function with such a rule."""

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        return tangent.view_as(tangent)


def scaled(y: Tensor, maps: Maps) -> Tensor:
    """r·y; or y/n as (y·c)/(n·c) with a constant c near 1/n, so that no gradient on the way grows like n²."""
    if maps.n is None:
        return y if maps.r is None else y * maps.r
    c = safe_reciprocal(maps.n.detach())
    return y * c * safe_reciprocal(maps.n * c)


def fused(x: Tensor, w: Tensor, maps: Maps, k: Tensor | float, form: str, g: Geometry) -> Tensor:
    """:func:`composed`, in eager mode: fewer passes over memory, less kept for backward."""
    inputs = (x, w, *maps, k)
    if torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in inputs):
        return _Fused.apply(*inputs, form, g)
    return _evaluate(x, w, _factor(maps), maps.s, k, form, g)


def inferred(x: Tensor, w: Tensor, inverse: Tensor, maps: Maps, k: Tensor | float, form: str, g: Geometry) -> Tensor:
    """The same without gradients for filters of any length, 1/‖w‖ being given."""
    y = convolve(x, w, g).mul_(inverse)
    return _epilogue(y, y, _factor(maps), maps.s, k, form)


def _factor(maps: Maps) -> Tensor:
    return safe_reciprocal(maps.n) if maps.n is not None else maps.r  # type: ignore[return-value]


def _evaluate(x: Tensor, w: Tensor, r: Tensor, s: Tensor | None, k: Tensor | float, form: str, g: Geometry) -> Tensor:
    y = convolve(x, w, g)
    return _epilogue(y, y, r, s, k, form)


def _epilogue(y: Tensor, out: Tensor, r: Tensor, s: Tensor | None, k: Tensor | float, form: str) -> Tensor:
    """s·g(r·y) in ``out``, which may be y itself."""
    for part in _parts(y):
        cos = upcast(y[part]).mul_(r[part])
        value = CLOSED_FORMS[form].apply_(cos, k)
        if s is not None:
            value.mul_(s[part])
        if value.dtype != y.dtype:
            out[part] = value
    return out


def _parts(y: Tensor) -> list[slice]:
    """The batch in slices that a CPU's cache holds through the several passes of an epilogue."""
    if y.device.type != "cpu" or y.numel() == 0:
        return [slice(None)]
    step = max(1, _CACHED * y.shape[0] // y.numel())
    return [slice(i, i + step) for i in range(0, y.shape[0], step)]


class _Fused(torch.autograd.Function):
    """The output is kept, and in half precision, where a rounded one does not tell the cosine, the inner products."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, r: Any, n: Any, s: Any, k: Any, form: str, g: Geometry) -> Tensor:
        factor, y = _factor(Maps(r, n, s)), convolve(x, w, g)
        half = x.dtype != compute_dtype(x.dtype)
        out = _epilogue(y, torch.empty_like(y) if half else y, factor, s, k, form)
        ctx.form, ctx.geometry, ctx.k = form, g, None if isinstance(k, Tensor) else k
        ctx.save_for_backward(x, w, factor, n, s, k if isinstance(k, Tensor) else None, y if half else None)
        ctx.kept = None if half else _keep(out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, w, r, n, s, k, y = ctx.saved_tensors
        inputs, need, form, g = (x, w, r, n, s, ctx.k if k is None else k), ctx.needs_input_grad, ctx.form, ctx.geometry
        if needs_definition(grad):

            def define(x: Tensor, w: Tensor, r: Any, n: Any, s: Any, k: Any) -> list[Tensor]:
                return [composed(x, w, Maps(r if n is None else None, n, s), k, form, g)]

            return (*differentiated(define, inputs, need[:6], [grad]), None, None)
        if y is not None:
            return (*_product_gradients(inputs, y, grad, need, form, g), None, None)
        out = ctx.kept.recover() if ctx.kept else None
        ctx.kept = None  # free it now; a second pass over a retained graph computes it again
        if out is None:
            out = _evaluate(x, w, r, s, inputs[-1], form, g)
        return (*_closed_gradients(inputs, out, grad, need, form, g), None, None)


def _product_gradients(
    inputs: tuple[Any, ...], y: Tensor, grad: Tensor, need: Sequence[bool], form: str, g: Geometry
) -> tuple[Tensor | None, ...]:
    """Through the epilogue by plain operations on y, then through the convolution."""
    x, w, *rest = inputs
    with torch.enable_grad():
        product = upcast(y).requires_grad_()
        leaves = [
            t.detach().requires_grad_(needed) if isinstance(t, Tensor) else t
            for t, needed in zip(rest, need[2:6], strict=True)
        ]
        out = CLOSED_FORMS[form].plain(scaled(product, Maps(*leaves[:3])), leaves[3])
        out = out if leaves[2] is None else out * leaves[2]
        wanted = [product, *(t for t, needed in zip(leaves, need[2:6], strict=True) if needed)]
        found = iter(torch.autograd.grad(out, wanted, upcast(grad), allow_unused=True))
    limit = torch.finfo(y.dtype).max
    grad_y = next(found).clamp_(-limit, limit).to(y.dtype)
    small = [next(found) if needed else None for needed in need[2:6]]
    # at cos = ±1 the parts along x and w are large, and what is made of them next cancels: infinities would be NaN
    through = convolve_backward(grad_y, x, w, g, (need[0], need[1]))
    grad_x, grad_w = (t if t is None else t.clamp(-limit, limit) for t in through)
    return grad_x, grad_w, *small


def _closed_gradients(
    inputs: tuple[Any, ...], out: Tensor, grad: Tensor, need: Sequence[bool], form: str, g: Geometry
) -> tuple[Tensor | None, ...]:
    x, w, r, n, s, k = inputs
    pull_back = CLOSED_FORMS[form].pull_back
    grad_y = torch.empty_like(out)
    grad_map = torch.empty_like(r) if need[2] or need[3] else None
    grad_s = torch.empty_like(s) if need[4] else None
    grad_k = torch.zeros_like(k) if need[5] else None
    # cos = r·y = y/n has the slope cos/r in r and −cos/n = −cos·r in n
    slope = r if n is not None else safe_reciprocal(r) if need[2] else None
    sign = 1.0 if n is None else -1.0
    for part in _parts(out):
        value, upstream = upcast(out[part]), upcast(grad[part])
        if s is not None:
            value = (value * safe_reciprocal(s[part])).clamp_(-1, 1)  # rounding of h·g over h must not leave g's range
            if grad_s is not None:
                grad_s[part] = _reduced(upstream * value, s)
            upstream = upstream * s[part]
        cos, through, factor, part_of_k = pull_back(value, upstream, k, need[5])
        if grad_k is not None and part_of_k is not None:
            grad_k.add_(part_of_k)
        if grad_map is not None and slope is not None:
            torch.mul(_reduced(cos * through, r), _times(slope[part], sign * factor), out=grad_map[part])
        if grad_y.dtype == through.dtype:
            torch.mul(through, _times(r[part], factor), out=grad_y[part])
        else:
            grad_y[part] = through * _times(r[part], factor)
    grad_x, grad_w = convolve_backward(grad_y, x, w, g, (need[0], need[1]))
    return (grad_x, grad_w, *((grad_map, None) if n is None else (None, grad_map)), grad_s, grad_k)


def _times(map_: Tensor, factor: float) -> Tensor:
    return map_ if factor == 1 else map_ * factor


def _reduced(full: Tensor, like: Tensor) -> Tensor:
    """Sum (N, C, ...) over the channels that a map shares."""
    return full.sum(1, keepdim=True) if like.shape[1] == 1 != full.shape[1] else full


class _Kept(NamedTuple):
    """An output kept for backward in a separate node, so that overwriting it can be told from an error."""

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
