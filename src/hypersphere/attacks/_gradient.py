"""The gradient of a loss with respect to the input, and nothing else: the model stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from .._core.checks import check_choice
from ._inputs import check_logits

Model = Callable[[Tensor], Tensor]
Loss = str | Callable[[Tensor, Tensor], Tensor]


def input_gradient(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """∇ of the scalar ``function`` at ``x``.

    Autograd in eager code and in CUDA graphs. A compiler cannot trace ``torch.autograd.grad``, but it traces the same
    gradient asked of ``torch.func``; eager code stays with autograd, which also knows hand-written backward passes.
    """
    if torch.compiler.is_compiling():
        return torch.func.grad(function)(x)
    with differentiable():
        leaf = x.detach().clone().requires_grad_(True)
        value = function(leaf)
        if not value.requires_grad:
            raise ValueError("the model's output does not depend on x by differentiable operations: nothing to attack")
        (gradient,) = torch.autograd.grad(value, leaf)
    return gradient


@contextmanager
def differentiable() -> Iterator[None]:
    """Gradients on, also within ``torch.no_grad`` and ``torch.inference_mode``."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def untouched(model: Any, update_statistics: bool = False) -> Any:
    """``model`` as a function that works on copies of its buffers: BatchNorm, running norms, annealing steps.

    In evaluation mode nothing is written there, so the model itself serves.
    """
    if update_statistics or not isinstance(model, nn.Module) or not any(part.training for part in model.modules()):
        return model
    if next(model.buffers(), None) is None:
        return model

    def call(*inputs: Tensor) -> Any:
        copies = {name: buffer.clone() for name, buffer in model.named_buffers()}
        return functional_call(model, copies, inputs)

    return call


def per_sample_loss(loss: Loss, logits: Tensor, labels: Tensor, check: bool) -> Tensor:
    """The sum over the batch of what an attack increases."""
    if not isinstance(loss, str):
        return loss(logits, labels).sum()
    check_choice("loss", loss, ("log_odds", "cross_entropy"))
    check_logits(logits, labels, check)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    if loss == "cross_entropy":
        return F.cross_entropy(logits, labels, reduction="sum")
    counts = labels >= 0
    target = labels.clamp_min(0).unsqueeze(1)
    others = logits.scatter(1, target, -torch.inf).logsumexp(1)
    return torch.where(counts, others - logits.gather(1, target).squeeze(1), 0.0).sum()


@torch.no_grad()
def predicted(forward: Model, x: Tensor) -> Tensor:
    """The classes that the model itself gives."""
    return forward(x).argmax(-1)
