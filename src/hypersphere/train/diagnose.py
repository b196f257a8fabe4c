"""Where a NaN or infinite value first appears: in a weight, on the way forward, or on the way back."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..functional.orthogonalize.algorithms import Unresolved
from .parts import Parts

FINITE = "no layer: everything is finite when the batch is replayed"


def spoiled(module: nn.Module, buffers: bool = True) -> str | None:
    """The first parameter (or buffer) that is not finite."""
    kinds = {"parameter": module.named_parameters(), "buffer": module.named_buffers() if buffers else ()}
    found = (f"{kind} {name}" for kind, tensors in kinds.items() for name, tensor in tensors if not _finite(tensor))
    return next(found, None)


def blame(parts: Parts, position: int) -> str:
    """What is not finite first in the step of one batch.

    In order: the parameters before it, the input, the output of every layer and what it keeps (running statistics), the
    loss, the regularizer; then the gradients from the loss back, of a layer's input and of its parameters, where what
    came to the layer was finite. Several processes walk through the batch together and name the earliest place that any
    of them finds.
    """
    bad = spoiled(parts.objective, buffers=False)  # alike in all processes; buffers change on the way forward
    if bad is not None:
        return bad
    buffers = {name: buffer.clone() for name, buffer in parts.objective.named_buffers()}
    try:
        forward, loss = _forward(parts, position)
        found = forward.name(parts.team.smallest(forward.first()))
        if found == FINITE and loss.requires_grad:
            backward = _backward(parts, position)
            found = backward.name(parts.team.smallest(backward.first()))
    except Unresolved:  # in all processes, which have the same matrices
        found = "a matrix whose angles are too large to be told apart"
    finally:
        with torch.no_grad():
            for name, buffer in parts.objective.named_buffers():
                buffer.copy_(buffers[name])
    return found


class _Trail:
    """The places that a batch comes through, in order, and which of them were not finite."""

    def __init__(self) -> None:
        self.places: list[str] = []
        self.bad: list[int] = []

    def add(self, name: str, value: object) -> None:
        if isinstance(value, Tensor) and not _finite(value):
            self.bad.append(len(self.places))
        self.places.append(name)

    def first(self) -> int:
        return min(self.bad, default=len(self.places))

    def name(self, place: int) -> str:
        return self.places[place] if place < len(self.places) else FINITE


def _forward(parts: Parts, position: int) -> tuple[_Trail, Tensor]:
    """Every value of a forward pass. A layer with layers inside it comes after them: it may compute by itself."""
    trail, layers = _Trail(), _layers(parts.objective)

    def hook(module: nn.Module, inputs: object, output: object) -> None:
        for value in output if isinstance(output, tuple | list) else (output,):
            trail.add(layers[module], value)
        for name, buffer in module.named_buffers(recurse=False):
            trail.add(f"{name} of {layers[module]}", buffer)

    handles = [module.register_forward_hook(hook) for module in layers]
    try:
        loss = _loss(parts, position, trail)
    finally:
        _remove(handles)
    return trail, loss


def _backward(parts: Parts, position: int) -> _Trail:
    """Every gradient of a backward pass, from the loss on."""
    try:
        return _gradients(parts, position, inputs=True)
    except RuntimeError:  # a layer that works in place does not let its input's gradient be watched
        return _gradients(parts, position, inputs=False)


def _gradients(parts: Parts, position: int, inputs: bool) -> _Trail:
    trail, layers = _Trail(), _layers(parts.objective)

    def hook(module: nn.Module, leaving: object, coming: object) -> None:
        values = {"coming": _tensors(coming), "leaving": _tensors(leaving)}
        if not trail.bad and not all(map(_finite, values["coming"])):
            trail.add("the gradient of the loss", values["coming"][0].new_full((), torch.nan))
        for value in values["leaving"]:
            trail.add(f"the gradient of {layers[module]}", value)

    owners = {id(p): layer for module, layer in layers.items() for p in module.parameters(recurse=False)}
    handles = [module.register_full_backward_hook(hook) for module in layers] if inputs else []
    for name, parameter in parts.objective.named_parameters():
        if parameter.requires_grad:
            place = f"the gradient of {owners.get(id(parameter), f'parameter {name}')}"
            handles.append(parameter.register_hook(lambda value, place=place: trail.add(place, value)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the input of the first layer has no gradient
            _loss(parts, position, _Trail()).backward()
    finally:
        _remove(handles)
        parts.optimizers.zero_grad()
    return trail


def _loss(parts: Parts, position: int, trail: _Trail) -> Tensor:
    """The loss with its penalty, as in a step."""
    inputs, labels = parts.source.batch(torch.tensor(position, device=parts.team.device))
    for values in inputs:
        trail.add("the input", values.coalesce().values() if values.is_sparse else values)
    half = parts.run.precision == "bfloat16"
    with torch.enable_grad(), torch.autocast(parts.team.device.type, torch.bfloat16, enabled=half):
        loss: Tensor = parts.objective(inputs, labels)[0]
    head = parts.objective.head
    trail.add(f"the loss ({'cross_entropy' if head is None else type(head).__name__})", loss)
    if parts.penalty:
        penalty = parts.penalty()
        trail.add("the regularizer", penalty)
        loss = loss + penalty
    return loss


def _layers(objective: nn.Module) -> dict[nn.Module, str]:
    """Every module inside, with its name for people."""
    named = ((name, module) for name, module in objective.named_modules() if name)
    return {module: f"layer {name} ({type(module).__name__})" for name, module in named}


def _tensors(values: object) -> list[Tensor]:
    return [value for value in values if isinstance(value, Tensor)] if isinstance(values, tuple | list) else []


def _finite(value: Tensor) -> bool:
    return not value.is_floating_point() or bool(torch.isfinite(value.detach()).all())


def _remove(handles: Iterable[torch.utils.hooks.RemovableHandle]) -> None:
    for handle in handles:
        handle.remove()
