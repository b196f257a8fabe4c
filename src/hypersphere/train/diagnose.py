"""Where a NaN or infinite value first appears."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .step import Parts

__all__ = ["blame"]


@torch.no_grad()
def blame(parts: Parts, position: int) -> str:
    """The first parameter that is not finite, else the first layer whose output is not, at one batch.

    Several processes walk through the batch together and name the earliest place that any of them finds.
    """
    for name, parameter in parts.objective.named_parameters():  # alike in all processes
        if not bool(torch.isfinite(parameter).all()):
            return f"parameter {name}"
    trail = _Trail()
    names = {module: name for name, module in parts.objective.named_modules()}
    leaves = [module for module in parts.objective.modules() if not list(module.children())]

    def hook(module: nn.Module, inputs: object, output: object) -> None:
        trail.add(f"layer {names[module]} ({type(module).__name__})", output)

    handles = [module.register_forward_hook(hook) for module in leaves]
    buffers = {name: buffer.clone() for name, buffer in parts.objective.named_buffers()}
    try:
        inputs, labels = parts.source.batch(torch.tensor(position, device=parts.team.device))
        for values in inputs:
            trail.add("the input", values.coalesce().values() if values.is_sparse else values)
        half = parts.run.precision == "bfloat16"
        with torch.autocast(parts.team.device.type, torch.bfloat16, enabled=half):
            loss, _ = parts.objective(inputs, labels)
        head = parts.objective.head
        trail.add(f"the loss ({'cross_entropy' if head is None else type(head).__name__})", loss)
        if parts.penalty:
            trail.add("the regularizer", parts.penalty())
    finally:
        for handle in handles:
            handle.remove()
        for name, buffer in parts.objective.named_buffers():
            buffer.copy_(buffers[name])
    return trail.name(parts.team.smallest(trail.first()))


class _Trail:
    """The places that a batch comes through, in order, and which of them were not finite."""

    def __init__(self) -> None:
        self.places: list[str] = []
        self.bad: list[int] = []

    def add(self, name: str, value: object) -> None:
        if isinstance(value, Tensor) and value.is_floating_point() and not bool(torch.isfinite(value).all()):
            self.bad.append(len(self.places))
        self.places.append(name)

    def first(self) -> int:
        return min(self.bad, default=len(self.places))

    def name(self, place: int) -> str:
        return self.places[place] if place < len(self.places) else "no layer: a replay of the batch is finite"
