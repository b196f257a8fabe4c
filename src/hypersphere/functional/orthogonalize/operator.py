"""The orthogonal maps as one opaque operator, for compilers and function transforms.

They take it as it is, whatever branches an algorithm has; autograd and vmap know its rules. In
eager mode the plain function is used, since calling an operator defined in Python costs 0.2 ms.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..._core.modes import without_autocast
from . import maps as plain
from .precision import in_full

_Four = tuple[Tensor, Tensor, Tensor, Tensor]


def orthogonalize_op(u: Tensor, method: str) -> Tensor:
    """Compute R with autograd, outside of compiled graphs."""
    kind = _Orthogonalize if torch.compiler.is_compiling() else _Transformed
    return kind.apply(u, method)[0]


@torch.library.custom_op("hypersphere::orthogonalize", mutates_args=())
def _forward(u: Tensor, method: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    with without_autocast(u.device):
        return _four(in_full(plain.algorithm_of(method, u.device.type).forward, u), u)


@torch.library.custom_op("hypersphere::orthogonalize_backward", mutates_args=())
def _backward(grad: Tensor, r: Tensor, a: Tensor, b: Tensor, c: Tensor, method: str) -> Tensor:
    algorithm = plain.algorithm_of(method, grad.device.type)
    with without_autocast(grad.device):
        kept = (a, b, c)[: len(algorithm.keeps)]
        return in_full(algorithm.backward, grad, r, *kept).contiguous()


@_forward.register_fake
def _(u: Tensor, method: str) -> _Four:
    shapes = {"matrix": u.shape, "vector": u.shape[:-1]}
    kinds = ("matrix", *plain.algorithm_of(method, u.device.type).keeps)
    return _four(tuple(torch.empty(shapes[kind], dtype=u.dtype, device=u.device) for kind in kinds), u)


@_backward.register_fake
def _(grad: Tensor, r: Tensor, a: Tensor, b: Tensor, c: Tensor, method: str) -> Tensor:
    return torch.empty(grad.shape, dtype=grad.dtype, device=grad.device)


@_forward.register_vmap
def _(info: Any, in_dims: Any, u: Tensor, method: str) -> tuple[_Four, tuple[int | None, ...]]:
    outputs = _forward(u.movedim(in_dims[0], 0), method)
    return outputs, tuple(0 if output.numel() else None for output in outputs)


@_backward.register_vmap
def _(info: Any, in_dims: Any, *inputs: Any) -> tuple[Tensor, int]:
    *tensors, method = inputs
    dims = in_dims[: len(tensors)]
    return _backward(*(_batched(t, dim, info.batch_size) for t, dim in zip(tensors, dims, strict=True)), method), 0


class _Orthogonalize(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(u: Tensor, method: str) -> _Four:
        return _forward(u, method)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, str], output: _Four) -> None:
        ctx.u, ctx.method = inputs
        ctx.kept = [tensor.detach() for tensor in output]
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, None]:
        grad = grads[0]
        if grad is None:
            return None, None
        return plain.DifferentiatedOnce.apply(_Backward.apply(grad, *ctx.kept, ctx.method), grad, ctx.u), None


class _Transformed(_Orthogonalize):
    jvp = staticmethod(plain.no_forward_mode)  # not in what is compiled: compilers take no Function with such a rule


class _Backward(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(grad: Tensor, r: Tensor, a: Tensor, b: Tensor, c: Tensor, method: str) -> Tensor:
        return _backward(grad, r, a, b, c, method)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, ...]:
        return (None,) * 6  # the node behind it raises the error


def _four(tensors: tuple[Tensor, ...], like: Tensor) -> _Four:
    """R and three places for what is kept; empty tensors in the places that a method does not use."""
    contiguous = (tensor.contiguous() for tensor in tensors)  # as the fake tensors are
    r, a, b, c = (*contiguous, *(like.new_empty(0) for _ in range(4 - len(tensors))))
    return r, a, b, c


def _batched(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    if tensor.numel() == 0:
        return tensor
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
