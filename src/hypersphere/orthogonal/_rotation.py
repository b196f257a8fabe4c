"""The parametrization that sits on a weight: v ↦ w = Rv."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from .._core.errors import check_model
from .._core.modes import without_autocast
from .._core.neurons import KeepsShape, Neurons
from ..functional.orthogonalize import rotate_all
from ._blocks import BlockMatrix, Kept

_NOWHERE = nn.Module()
P = TypeVar("P", bound=nn.Module)


class Rotation(KeepsShape):
    """w = Rv for every neuron v of a weight (thesis 7.1); one R for all groups and gates, one set a task.

    ``learn_v``, ``trained``, ``order`` and ``strides`` remember what :func:`merge` has to restore: whether v is a
    parameter, whether the weight was trained before, the order of the module's parameters, and how the weight of a
    convolution lies in memory (``channels_last``).
    """

    def __init__(self, neurons: Neurons, tasks: Sequence[BlockMatrix], learn_v: bool) -> None:
        super().__init__()
        self.layout = detached_layout(neurons)
        self.tasks = nn.ModuleList(tasks)
        self.task = 0
        self.learn_v = learn_v
        self.trained = neurons.weight.requires_grad
        self.order = list(neurons.module._parameters)
        self.strides = dense_strides(neurons.weight)
        self.ready: Tensor | None = None  # the weight, while `prepared` holds it

    @property
    def active(self) -> BlockMatrix:
        blocks = self.tasks[self.task]
        if not isinstance(blocks, BlockMatrix):
            raise TypeError(f"task {self.task} of {self.layout.name} is a {type(blocks).__name__}, not a BlockMatrix")
        return blocks

    def forward(self, v: Tensor) -> Tensor:
        if self.ready is not None:
            return self.ready
        return self.weight(self.active.rotate(self.neurons(v)), v)

    def neurons(self, v: Tensor) -> Tensor:
        """The neurons (n, dim) of a weight."""
        matrix = self.layout.flatten(v)
        return matrix.reshape(-1, matrix.shape[-1])

    def weight(self, neurons: Tensor, like: Tensor) -> Tensor:
        """The weight that has these neurons, in shape and dtype of ``like``."""
        matrix = neurons.reshape(self.layout.groups, -1, neurons.shape[-1])
        return self.layout.unflatten(matrix, like.shape).to(like.dtype)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "ready": None}

    def extra_repr(self) -> str:
        return f"learn_v={self.learn_v}, task={self.task}"


def turn_together(weights: Sequence[tuple[Rotation, Tensor]]) -> None:
    """Make ``ready`` what warm-started maps turn: all weights in one node, whose backward pass does them together."""
    joint: dict[str, list[tuple[Rotation, Tensor, Kept]]] = {}
    for rotation, v in weights:
        if rotation.active.is_joint:
            kept = rotation.active.computed()
            if kept.kind != rotation.active.name:
                joint.setdefault(f"{kept.kind} {v.device}", []).append((rotation, v, kept))
    for group in joint.values():
        with without_autocast(group[0][1].device):
            parts = [rotation.active.parts(rotation.neurons(v)) for rotation, v, _ in group]
            raw = [raw for rotation, _, _ in group for raw in rotation.active.raw]
            solved = [solved for _, _, kept in group for solved in kept.solved]
            turned = rotate_all([part for own in parts for part in own], raw, group[0][2].kind, solved)
            for (rotation, v, _), own in zip(group, parts, strict=True):
                mine, turned = turned[: len(own)], turned[len(own) :]
                rotation.active.forget_after(mine)
                rotation.ready = rotation.weight(rotation.active.joined(mine), v)


def dense_strides(weight: Tensor) -> tuple[int, ...] | None:
    """The strides of the weight of a 2d or 3d convolution, without gaps; None for others, which have one format."""
    return torch.empty_like(weight, device="meta").stride() if weight.dim() in (4, 5) else None


def detached_layout(neurons: Neurons) -> Neurons:
    """The reading of a weight as neurons, without the module that has it."""
    return replace(neurons, module=_NOWHERE)


def unshare_class(module: nn.Module) -> None:
    """Give a parametrized module its own class.

    ``parametrize`` stores its properties on a class that deep copies share: changing them for one
    module would break the others.
    """
    cls = module.__class__
    if parametrize.is_parametrized(module):
        own = {key: value for key, value in vars(cls).items() if key not in ("__dict__", "__weakref__")}
        module.__class__ = type(cls.__name__, cls.__bases__, own)


def iter_rotations(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, Rotation]]:
    """As :func:`iter_parametrizations`, of every weight that was attached."""
    return iter_parametrizations(model, Rotation)


def iter_parametrizations(model: nn.Module, kind: type[P]) -> Iterator[tuple[str, nn.Module, str, P]]:
    """(qualified tensor name, module, tensor name, parametrization) of each of a kind, shared modules once."""
    check_model(model)
    for name, module in model.named_modules():
        if not parametrize.is_parametrized(module):
            continue
        for tensor_name, chain in list(module.parametrizations.items()):
            for parametrization in chain:
                if isinstance(parametrization, kind):
                    yield (f"{name}.{tensor_name}" if name else tensor_name), module, tensor_name, parametrization


def check_alone(found: Iterable[tuple[str, nn.Module, str, nn.Module]], what: str) -> None:
    """Refuse weights that have more parametrizations than the one which is to be merged."""
    for name, module, tensor_name, _ in found:
        if len(module.parametrizations[tensor_name]) > 1:  # type: ignore[index]
            raise ValueError(f"{name} has further parametrizations on top of the {what}: remove them first")


def reorder(module: nn.Module, order: list[str]) -> None:
    """Parameters in the order they had before, since optimizers and state dicts number them by it."""
    parameters = dict(module._parameters)
    module._parameters.clear()
    for name in sorted(parameters, key=lambda name: order.index(name) if name in order else len(order)):
        module._parameters[name] = parameters[name]
