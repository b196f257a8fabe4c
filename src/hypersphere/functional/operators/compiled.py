"""The fused block as an operator of compiled graphs, which take it as it is: one node forward, one backward.

In eager mode it is not called: dispatching it would cost more than a small layer.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ... import kernels
from ...kernels.layout import arranged, channels_last, empty, out_shape
from ...kernels.memory import kept_pieces
from ...kernels.spec import decode
from .rows import fused_rows

LIBRARY = torch.library.Library("hypersphere", "FRAGMENT")

_TENSORS = (
    "Tensor x, Tensor? q, Tensor weight, Tensor? k, Tensor? scale, Tensor? shift, Tensor? rho, Tensor? gamma, "
    "Tensor? beta, Tensor? leaks, Tensor? mean, Tensor? var"
)
LIBRARY.define(f"block({_TENSORS}, Tensor? running, str spec) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")
LIBRARY.define(
    f"block_backward({_TENSORS}, Tensor y, Tensor unit, Tensor memory, Tensor? dz, Tensor? dq, bool[] need, "
    "str spec) -> "
    "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)


def _forward(*args: Any) -> tuple[Tensor, ...]:
    (x, q, *tensors, running, text) = args
    inputs = kernels.block.Inputs._make((x, q if q is None else q.contiguous(), *tensors, None, running, None))
    spec = decode(text)
    z, q, _, kept = kernels.block.forward(spec, inputs, False, True)
    assert q is not None
    return z, q, kept.y, arranged(kept.unit, _last(x, tensors[0])), kept.memory


def _forward_shapes(*args: Any) -> tuple[Tensor, ...]:
    x, _, weight, *_, text = args
    f = decode(text).fields
    last = _last(x, weight)
    shape = torch.Size(out_shape(tuple(x.shape), tuple(weight.shape), f.window))
    wide, device = torch.float32, x.device
    return (
        empty(shape, x.dtype, device, last),
        torch.empty((shape[0], 1, *shape[2:]), dtype=wide, device=device),
        empty(shape, x.dtype, device, last),
        empty(weight.shape, x.dtype, device, last),
        torch.empty(kept_pieces(f, shape).size, dtype=wide, device=device),
    )


def _backward(*args: Any) -> tuple[Tensor, ...]:
    block = kernels.block
    *tensors, dz, dq, need, text = args
    spec = decode(text)
    x, weight = tensors[0], tensors[2]
    last = _last(x, weight)
    inputs = block.Inputs._make((arranged(x, last), *tensors[1:12], None, None, None))
    grads = block.backward(spec, inputs, block.Kept(*tensors[12:]), dz, dq, tuple(need), False)
    if grads.weight is not None:
        grads = grads._replace(weight=arranged(grads.weight, channels_last(weight)))
    return tuple(x.new_empty(0) if v is None else v for v in grads)


def _backward_shapes(*args: Any) -> tuple[Tensor, ...]:
    *tensors, _dz, _dq, need, _text = args
    x, weight = tensors[0], tensors[2]
    last = _last(x, weight)
    shaped = []
    for i, (tensor, needed) in enumerate(zip(tensors[:10], need, strict=True)):
        if not needed or tensor is None:
            shaped.append(x.new_empty(0))
        else:
            order = last if i == 0 else i == 2 and channels_last(weight)
            shaped.append(empty(tensor.shape, tensor.dtype, x.device, order))
    return tuple(shaped)


def _last(x: Tensor, weight: Tensor) -> bool:
    return channels_last(x) or (x.dim() in (4, 5) and channels_last(weight))


LIBRARY.impl("block", _forward, "CompositeExplicitAutograd")
LIBRARY.impl("block_backward", _backward, "CompositeExplicitAutograd")
LIBRARY.impl("block", _forward_shapes, "Meta")
LIBRARY.impl("block_backward", _backward_shapes, "Meta")


class _Node(torch.autograd.Function):
    """The gradient rule, under tracers."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> tuple[Tensor, ...]:
        with torch._C._AutoDispatchBelowAutograd():
            out: tuple[Tensor, ...] = torch.ops.hypersphere.block(*args)
        ctx.text = args[-1]
        ctx.given = [v is not None for v in args[:12]]
        ctx.save_for_backward(*(v for v in args[:12] if v is not None), *out[2:])
        ctx.mark_non_differentiable(*out[2:])
        ctx.set_materialize_grads(False)
        return out

    @staticmethod
    def backward(ctx: Any, dz: Tensor | None, dq: Tensor | None, *_: Any) -> tuple[Any, ...]:
        if dz is None and dq is None:
            return (None,) * 14
        saved = iter(ctx.saved_tensors)
        tensors = [next(saved) if given else None for given in ctx.given]
        need = list(ctx.needs_input_grad[:10])
        grads = torch.ops.hypersphere.block_backward(*tensors, *saved, dz, dq, need, ctx.text)
        return *(g if n else None for g, n in zip(grads, need, strict=True)), None, None, None, None


LIBRARY.impl("block", lambda *args: _Node.apply(*args), "Autograd")

LIBRARY.define(
    "rows(Tensor x, Tensor? q, Tensor weight, Tensor? scale, Tensor? shift, Tensor? rho, Tensor? leaks, bool give_q, "
    "str spec) -> (Tensor, Tensor)"
)


def _rows(*args: Any) -> tuple[Tensor, Tensor]:
    """What :func:`.rows.fused_rows` does: the first step of a compiler need not look into it, which takes its time."""
    *given, text = args
    z, q = fused_rows(decode(text).fields, *given)
    return z, z.new_empty(0) if q is None else q


LIBRARY.impl("rows", _rows, "CompositeImplicitAutograd")

LIBRARY.define("max_pool(Tensor x, int[2] size, int[2] stride, int[2] padding) -> (Tensor, Tensor, Tensor)")
LIBRARY.define(
    "max_pool_backward(Tensor? dz, Tensor? dq, Tensor z, Tensor chosen, SymInt[] shape, int[2] size, int[2] stride, "
    "int[2] padding) -> Tensor"
)


def _pool(x: Tensor, size: Any, stride: Any, padding: Any) -> tuple[Tensor, ...]:
    z, q, chosen = kernels.pool.forward(x, kernels.pool.Pooling(tuple(size), tuple(stride), tuple(padding)), True, True)
    assert q is not None
    assert chosen is not None
    return z, q, chosen


def _pool_shapes(x: Tensor, size: Any, stride: Any, padding: Any) -> tuple[Tensor, ...]:
    last = channels_last(x)
    sizes = [(v + 2 * p - k) // s + 1 for v, k, s, p in zip(x.shape[2:], size, stride, padding, strict=True)]
    shape = torch.Size((*x.shape[:2], *sizes))
    q = torch.empty((shape[0], 1, *sizes), dtype=torch.float32, device=x.device)
    return empty(shape, x.dtype, x.device, last), q, empty(shape, torch.uint8, x.device, last)


def _pool_backward(
    dz: Tensor | None, dq: Tensor | None, z: Tensor, chosen: Tensor, shape: Any, size: Any, stride: Any, padding: Any
) -> Tensor:
    pooling = kernels.pool.Pooling(tuple(size), tuple(stride), tuple(padding))
    return kernels.pool.backward(dz, dq, z, chosen, torch.Size(shape), pooling)


def _pool_backward_shapes(dz: Any, dq: Any, z: Tensor, chosen: Tensor, shape: Any, *_: Any) -> Tensor:
    return empty(torch.Size(shape), z.dtype, z.device, channels_last(z) or channels_last(chosen))


class _PoolNode(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *pooling: Any) -> tuple[Tensor, ...]:
        with torch._C._AutoDispatchBelowAutograd():
            out: tuple[Tensor, ...] = torch.ops.hypersphere.max_pool(x, *pooling)
        ctx.pooling, ctx.shape = pooling, x.shape
        ctx.save_for_backward(out[0], out[2])
        ctx.mark_non_differentiable(out[2])
        ctx.set_materialize_grads(False)
        return out

    @staticmethod
    def backward(ctx: Any, dz: Tensor | None, dq: Tensor | None, _: Any) -> tuple[Any, ...]:
        if dz is None and dq is None:
            return None, None, None, None
        z, chosen = ctx.saved_tensors
        return torch.ops.hypersphere.max_pool_backward(dz, dq, z, chosen, ctx.shape, *ctx.pooling), None, None, None


LIBRARY.impl("max_pool", _pool, "CompositeExplicitAutograd")
LIBRARY.impl("max_pool", _pool_shapes, "Meta")
LIBRARY.impl("max_pool_backward", _pool_backward, "CompositeExplicitAutograd")
LIBRARY.impl("max_pool_backward", _pool_backward_shapes, "Meta")
LIBRARY.impl("max_pool", lambda *args: _PoolNode.apply(*args), "Autograd")
