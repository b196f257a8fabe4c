"""The sweep of ``blocks`` for ``torch.func`` transforms and forward mode: its rules spelled out.

The energy moves by ⟨∂E/∂ŵ, v⟩ and its gradient by Hv when ŵ moves by v: no N × N tensor here either.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .blocks import hessian_op, merged, sweep_op
from .kernel import Kernel

_Dims = tuple[int | None, ...]


def transformed_sweep(unit: Tensor, beta: Tensor | None, kernel: Kernel, block: int) -> Tensor:
    """Σ_{i≠j} φ(c_ij) of each of the (B, N, d) sets of unit vectors, shape (B,)."""
    return _Sweep.apply(unit, beta, *kernel, block)[0]


class _Sweep(torch.autograd.Function):
    @staticmethod
    def forward(unit: Tensor, beta: Tensor | None, *settings: Any) -> tuple[Tensor, Tensor]:
        return sweep_op(unit, beta, *settings, True, False, None)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        unit, beta, *ctx.settings = inputs
        ctx.save_for_backward(unit, beta, output[1])
        ctx.save_for_forward(unit, beta, output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        unit, beta, gradient = ctx.saved_tensors
        grad_values, grad_gradient = grads
        total: Tensor | None = None
        if grad_values is not None:
            total = grad_values[:, None, None] * gradient
        if grad_gradient is not None:
            curved = _HessianProduct.apply(unit, grad_gradient.contiguous(), beta, *ctx.settings)
            total = curved if total is None else total + curved
        return (total, *(None,) * (1 + len(ctx.settings)))

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        unit, beta, gradient = ctx.saved_tensors
        moved = tangents[0]
        if moved is None:
            return None, None
        curved = _HessianProduct.apply(unit, moved.contiguous(), beta, *ctx.settings)
        return (gradient * moved).sum((1, 2)), curved

    @staticmethod
    def vmap(info: Any, in_dims: _Dims, unit: Tensor, beta: Tensor | None, *settings: Any) -> tuple[Any, Any]:
        values, gradient = _Sweep.apply(*merged((unit, beta), in_dims, info.batch_size), *settings)
        size = (info.batch_size, -1)
        return (values.unflatten(0, size), gradient.unflatten(0, size)), (0, 0)


class _HessianProduct(torch.autograd.Function):
    @staticmethod
    def forward(unit: Tensor, v: Tensor, beta: Tensor | None, *settings: Any) -> Tensor:
        return hessian_op(unit, v, beta, *settings)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.settings = inputs[3:]
        ctx.save_for_backward(inputs[0], inputs[2])
        ctx.save_for_forward(inputs[0], inputs[2])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        """H is symmetric, so in v this is Hg again; in the points it would be a third derivative."""
        if ctx.needs_input_grad[0]:
            raise RuntimeError(_THIRD)
        unit, beta = ctx.saved_tensors
        grad = grads[0]
        curved = None if grad is None else _HessianProduct.apply(unit, grad.contiguous(), beta, *ctx.settings)
        return (None, curved, None, *(None,) * len(ctx.settings))

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor | None:
        if tangents[0] is not None:
            raise RuntimeError(_THIRD)
        unit, beta = ctx.saved_tensors
        moved = tangents[1]
        return None if moved is None else _HessianProduct.apply(unit, moved.contiguous(), beta, *ctx.settings)

    @staticmethod
    def vmap(
        info: Any, in_dims: _Dims, unit: Tensor, v: Tensor, beta: Tensor | None, *settings: Any
    ) -> tuple[Tensor, int]:
        flat = merged((unit, v, beta), in_dims, info.batch_size)
        return _HessianProduct.apply(*flat, *settings).unflatten(0, (info.batch_size, -1)), 0


_THIRD = "the energy in tiles has no third derivative: with up to 1024 neurons block_size=None takes no tiles"
