"""w = Rv with R made beforehand: the rotation of neurons as one autograd node, from the map's parameter to w.

For Cayley's map the gradient of R is never formed. With G = Σ g vᵀ over the n neurons (g the gradient of w),

    dL/dA = ½(R+I)ᵀG(R+I)ᵀ = ½PᵀS,   P = g(R+I),   S = v(R+I)ᵀ = w + v   (rows are neurons)

which takes products of size n·d² instead of d³, and layers have fewer neurons than dimensions. The warm-started maps
(:func:`rotate_all`) do the same for all layers at once; Gram-Schmidt and Löwdin take N − Nᵀ, N = RᵀG = PᵀV with P = gR,
and go on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..._core.modes import Watched
from .from_last import Solved
from .grouped import layout_of
from .maps import DifferentiatedOnce, algorithm_of
from .precision import in_full, matmul
from .rows import Beside, rows_of, turn
from .warm import cayley_gradient
from .warm_polar import polar_gradient
from .warm_qr import qr_gradient

_GRADIENTS: dict[str, Callable[[Beside, Sequence[Solved]], list[Tensor]]] = {
    "warm cayley": cayley_gradient,
    "qr": qr_gradient,
    "polar": polar_gradient,
}


def solve(u: Tensor, method: str) -> Solved:
    """R of every matrix of ``u`` and what backward needs, outside of autograd."""
    with torch.no_grad():
        return tuple(in_full(algorithm_of(method, u.device.type).forward, u.detach()))


def connect(u: Tensor, method: str, solved: Solved) -> Tensor:
    """The R of :func:`solve` as a differentiable function of ``u``."""
    return _Connect.apply(u, method, solved)


def rotate(v: Tensor, u: Tensor, method: str, solved: Solved) -> Tensor:
    """Rv for the rows v of each matrix of ``v`` (..., n, d), differentiable in ``v`` and ``u`` (..., d, d)."""
    return _Rotate.apply(v, u, method, solved)


def rotate_all(vs: Sequence[Tensor], us: Sequence[Tensor], kind: str, solved: Sequence[Solved]) -> list[Tensor]:
    """:func:`rotate` of several stacks in one node, whose ``solved`` are of a warm-started map (``kind``)."""
    return list(_RotateAll.apply(kind, tuple(solved), *vs, *us))


class _Connect(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, method: str, solved: Solved) -> Tensor:
        ctx.u, ctx.method, ctx.solved = u, method, Watched(*solved)
        return solved[0].view_as(solved[0])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        with torch.no_grad():
            out = _backward(ctx.method, grad, ctx.solved())
        return _once(out, grad, ctx.u), None, None


class _Rotate(torch.autograd.Function):
    """What it keeps is kept outside of ``save_for_backward``: R is shared by all reads of a step."""

    @staticmethod
    def forward(ctx: Any, v: Tensor, u: Tensor, method: str, solved: Solved) -> Tensor:
        w = matmul(v, solved[0].mT)
        ctx.u, ctx.method, ctx.kept = u, method, Watched(v, w.detach(), *solved)
        return w

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        (v, w, *solved), (for_v, for_u) = ctx.kept(), ctx.needs_input_grad[:2]
        if torch.is_grad_enabled():  # create_graph=True: R's own derivative may be asked for, once
            r = connect(ctx.u, ctx.method, tuple(solved))
            of_r = grad.mT @ v
            with torch.no_grad():
                out = _backward(ctx.method, of_r, solved) if for_u else None
            return grad @ r if for_v else None, None if out is None else _once(out, of_r, ctx.u), None, None
        r = solved[0]
        thin = for_u and ctx.method == "cayley" and grad.shape[-2] <= r.shape[-1]
        turned = matmul(grad, r) if for_v or thin else None
        of_u = None
        if thin and turned is not None:
            of_u = in_full(_cayley_backward, grad + turned, w + v)
        elif for_u:
            of_u = _backward(ctx.method, matmul(grad.mT, v), solved)
        return turned if for_v else None, of_u, None, None


class _RotateAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kind: str, solved: tuple[Solved, ...], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.kind, ctx.solved = kind, solved
        ctx.vs, ctx.us = tensors[: len(solved)], tensors[len(solved) :]
        layout = layout_of([r.shape for r, *_ in solved], solved[0][0].device)
        ctx.rows, ctx.r = rows_of(layout, ctx.vs), layout.whole([r for r, *_ in solved])
        ctx.v = ctx.rows.packed(ctx.vs)
        ctx.w = turn(ctx.rows, ctx.v, ctx.r)
        ctx.unchanged = Watched(ctx.w, *(one for own in solved for one in own))
        return tuple(ctx.rows.views(ctx.w))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        ctx.unchanged()
        with torch.no_grad():
            g = ctx.rows.packed(grads)
            p = turn(ctx.rows, g, ctx.r, back=True)
            of_us = _GRADIENTS[ctx.kind](Beside(ctx.rows, ctx.v, ctx.w, g, p), ctx.solved)
            turned = ctx.rows.views(p)
        if torch.is_grad_enabled():  # create_graph=True: R's own derivative may be asked for, once
            rs = [connect(u, ctx.kind, solved) for u, solved in zip(ctx.us, ctx.solved, strict=True)]
            turned = [grad @ r for grad, r in zip(grads, rs, strict=True)]
            of_us = [_once(out, grad.mT @ v, u) for out, grad, v, u in zip(of_us, grads, ctx.vs, ctx.us, strict=True)]
        return None, None, *turned, *of_us


def _cayley_backward(p: Tensor, s: Tensor) -> Tensor:
    """tril(½(PᵀS − SᵀP), −1): one product of both, skew as it comes."""
    both, turned = torch.cat([p, s], -2), torch.cat([s, -p], -2)
    return (both.mT @ turned).mul_(0.5).tril_(-1)


def _backward(method: str, grad: Tensor, solved: Sequence[Tensor]) -> Tensor:
    if method in ("qr", "polar"):  # R = RI: the gradient of rows v = I is Gᵀ; w is not needed
        r = solved[0]
        layout = layout_of([r.shape], r.device)
        rows = rows_of(layout, [r])
        v, g = rows.packed([torch.eye(r.shape[-1], device=r.device).expand_as(r)]), rows.packed([grad.mT])
        beside = Beside(rows, v, v, g, turn(rows, g, layout.whole([r]), back=True))
        return _GRADIENTS[method](beside, [tuple(solved)])[0]
    method = "cayley" if method == "warm cayley" else method
    return in_full(algorithm_of(method, grad.device.type).backward, grad, *solved)


def _once(out: Tensor, grad: Tensor, u: Tensor) -> Tensor:
    return DifferentiatedOnce.apply(out, grad, u) if torch.is_grad_enabled() else out
