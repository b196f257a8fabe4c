"""Max pooling between fused blocks: (x) → (z, q), q = Σ_c z², with one byte kept for each maximum."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ... import kernels
from ..._core.modes import is_exporting, is_plain_eager, needs_definition


def fused_max_pool(
    x: Tensor, size: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int], give_q: bool
) -> tuple[Tensor, Tensor | None] | None:
    """Max pooling of x (N, C, H, W) by kernels and Σ_c z² if asked for; None where plain operations must be used.

    The caller has found that kernels are usable for x.
    """
    if x.dim() != 4 or x.numel() == 0 or size[0] * size[1] > 255:
        return None
    if torch.compiler.is_compiling():
        if is_exporting():
            return None
        z, q, _ = torch.ops.hypersphere.max_pool(x, size, stride, padding)
        return z, q
    if not is_plain_eager(x):
        return None
    if torch.is_grad_enabled() and x.requires_grad:
        return _apply_pool(x, kernels.pool.Pooling(size, stride, padding), give_q)
    return kernels.pool.forward(x, kernels.pool.Pooling(size, stride, padding), False, give_q)[:2]


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, pooling: Any, give_q: bool) -> tuple[Tensor, Tensor | None]:
        z, q, chosen = kernels.pool.forward(x, pooling, True, give_q)
        ctx.pooling, ctx.shape = pooling, x.shape
        ctx.save_for_backward(z if give_q else None, chosen)
        ctx.set_materialize_grads(False)
        return z, q

    @staticmethod
    def backward(ctx: Any, dz: Tensor | None, dq: Tensor | None) -> tuple[Tensor | None, None, None]:
        z, chosen = ctx.saved_tensors
        if dz is None and dq is None:
            return None, None, None
        if needs_definition(dz, dq):  # linear in its gradients: gather and scatter, which autograd differentiates
            return _scatter(dz, dq, z, chosen, ctx.shape, *ctx.pooling), None, None
        like = z if z is not None else dz
        assert like is not None
        return kernels.pool.backward(dz, dq, like, chosen, ctx.shape, ctx.pooling), None, None


_apply_pool: Any = super(torch.autograd.Function, _Pool).apply


def _scatter(
    dz: Tensor | None, dq: Tensor | None, z: Tensor | None, chosen: Tensor, shape: Any, size: Any, stride: Any, pad: Any
) -> Tensor:
    """The same by differentiable operations."""
    n, c, h, w = shape
    oh, ow = chosen.shape[2:]
    code = chosen.long()
    rows = torch.arange(oh, device=code.device).view(-1, 1) * stride[0] - pad[0] + code // size[1]
    cols = torch.arange(ow, device=code.device) * stride[1] - pad[1] + code % size[1]
    index = (rows * w + cols).flatten(2)
    total: Any = 0 if dz is None else dz.float()
    if dq is not None and z is not None:
        total = total + 2 * dq * z.float()
    like = z if z is not None else dz
    assert like is not None
    flat = torch.zeros((n, c, h * w), dtype=torch.float32, device=code.device)
    return flat.scatter_add(2, index, total.reshape(n, c, oh * ow)).view(n, c, h, w).to(like.dtype)
