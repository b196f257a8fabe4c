"""Where a NaN or infinite value first appears."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .step import Parts

__all__ = ["blame"]


@torch.no_grad()
def blame(parts: Parts, position: int) -> str:
    """The first parameter that is not finite, else the first layer whose output is not, at one batch."""
    for name, parameter in parts.objective.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            return f"parameter {name}"
    found: list[str] = []
    names = {module: name for name, module in parts.objective.named_modules()}
    leaves = [module for module in parts.objective.modules() if not list(module.children())]

    def hook(module: nn.Module, inputs: object, output: object) -> None:
        if not found and isinstance(output, Tensor) and not bool(torch.isfinite(output).all()):
            found.append(f"layer {names[module]} ({type(module).__name__})")

    handles = [module.register_forward_hook(hook) for module in leaves]
    buffers = {name: buffer.clone() for name, buffer in parts.objective.named_buffers()}
    try:
        inputs, labels = parts.source.batch(torch.tensor(position, device=parts.team.device))
        if not all(bool(torch.isfinite(x.float() if not x.is_sparse else x.values()).all()) for x in inputs):
            return "the input"
        half = parts.run.precision == "bfloat16"
        with torch.autocast(parts.team.device.type, torch.bfloat16, enabled=half):
            loss, _ = parts.objective(inputs, labels)
        penalty = parts.penalty() if parts.penalty else torch.zeros(())
    finally:
        for handle in handles:
            handle.remove()
        for name, buffer in parts.objective.named_buffers():
            buffer.copy_(buffers[name])
    if found:
        return found[0]
    if not bool(torch.isfinite(loss)):
        return f"the loss ({type(parts.objective.head).__name__ if parts.objective.head else 'cross_entropy'})"
    return "the regularizer" if not bool(torch.isfinite(penalty)) else "no layer: a replay of the batch is finite"
