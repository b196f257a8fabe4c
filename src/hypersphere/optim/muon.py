"""Muon: momentum, orthogonalised by Newton-Schulz, for every weight seen as a matrix of neurons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import torch
from torch import Tensor
from torch.optim.optimizer import Optimizer, ParamsT

from .._core.checks import check_positive, check_share
from .._core.modes import placed
from .._core.sphere import entry_size

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon(Optimizer):
    """W ← W − lr·√max(1, N/d)·NS(momentum), NS(G) ≈ UVᵀ of G = USVᵀ, in five Newton-Schulz steps.

    torch's own takes 2-D parameters only and a number as learning rate. This one flattens filters to rows and
    takes a tensor, so that convolutions train with it and a CUDA graph can change its rate.

    Args:
        params: Weights of two or more dimensions, or groups of them.
        lr: Learning rate; the step of a square weight has about √N times this length.
        momentum: Decay of the running mean of the gradient.
        weight_decay: Share lr·weight_decay of a weight that is taken off in each step.

    Raises:
        ValueError: If a parameter has fewer than two dimensions, or a number is out of range.
    """

    def __init__(
        self, params: ParamsT, lr: float | Tensor = 0.02, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        try:
            _check_group(self.param_groups[-1])
        except (TypeError, ValueError):
            self.param_groups.pop()
            raise

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, group)
        return loss

    def _update(self, p: Tensor, group: dict[str, Any]) -> None:
        state, grad = self.state[p], p.grad
        assert grad is not None
        buffer = state.setdefault("momentum_buffer", torch.zeros_like(p))
        buffer.lerp_(grad, 1 - group["momentum"])
        direction = grad.lerp(buffer, group["momentum"])
        matrix = direction.reshape(p.shape[0], -1)
        update = newton_schulz(matrix) * max(1.0, matrix.shape[0] / matrix.shape[1]) ** 0.5
        if group["weight_decay"]:
            p.mul_(1 - group["lr"] * group["weight_decay"])
        p.sub_(placed(update.reshape(p.shape).to(p.dtype) * group["lr"], p))


def _check_group(group: dict[str, Any]) -> None:
    check_rate(group["lr"])
    check_share("momentum", group["momentum"])
    check_positive("weight_decay", group["weight_decay"], zero=True)
    for p in group["params"]:
        if p.dim() < 2:
            raise ValueError(f"Muon takes weights of two or more dimensions, not {tuple(p.shape)}: use Adam for others")


def check_rate(lr: float | Tensor) -> None:
    """A learning rate is a number ≥ 0, or a tensor that holds one."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError(f"lr has shape {tuple(lr.shape)}: pass a number, or a tensor that holds one")
    check_positive("lr", float(lr) if isinstance(lr, Tensor) else lr, zero=True)


def newton_schulz(matrix: Tensor, steps: int = 5) -> Tensor:
    """About UVᵀ of ``matrix`` = USVᵀ, at any scale, in bfloat16: singular values end between 0.7 and 1.2."""
    a, b, c = _COEFFICIENTS
    largest = entry_size(matrix, (0, 1)).clamp(min=torch.finfo(matrix.dtype).tiny)
    x = (matrix / largest).bfloat16()  # the squares of entries below 1e-20 or above 1e19 are no numbers
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
