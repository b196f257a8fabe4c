"""Which weights of a model are neurons, and what a name pattern selects.

One reading for everything that walks a model: conversion, energies, orthogonal training, optimizers.
"""

from __future__ import annotations

import fnmatch
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from .errors import check_model
from .modes import modes_kept, whole

logger = logging.getLogger("hypersphere")

Patterns: TypeAlias = str | Sequence[str] | None

_CONV = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_CONV_TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


class KeepsShape(nn.Module):
    """A parametrization whose weight has the shape of the tensor that it is computed from."""


@dataclass(frozen=True)
class Neurons:
    """One weight tensor of a module, seen as ``groups`` sets of neurons: (groups, neurons, dim).

    Grouped convolutions give a set per group, LSTM and GRU a set per gate, packed attention
    projections a set each for query, key and value.
    """

    module_name: str
    module: nn.Module
    tensor_name: str
    groups: int = 1
    transposed: bool = False

    @property
    def name(self) -> str:
        return f"{self.module_name}.{self.tensor_name}" if self.module_name else self.tensor_name

    @property
    def weight(self) -> Tensor:
        """The tensor the module computes with now (after any parametrization)."""
        weight = getattr(self.module, self.tensor_name)
        if not isinstance(weight, Tensor):
            raise TypeError(f"{self.name} is not a tensor but {type(weight).__name__}")
        return weight

    @property
    def shape(self) -> torch.Size:
        """That of the weight; a parametrized one is computed for it only if that may change its shape."""
        shape = _shape(self.module, self.tensor_name)
        return self.weight.shape if shape is None else shape  # no tensor: its error

    @property
    def channels(self) -> int:
        """How many inputs a neuron has, each with as many entries as the window has positions."""
        shape = self.shape
        return shape[0] // self.groups if self.transposed else shape[1]

    @property
    def is_lazy(self) -> bool:
        """Whether the weight has no shape before the first batch."""
        return isinstance(self.module._parameters.get(self.tensor_name), nn.parameter.UninitializedParameter)

    @property
    def dim(self) -> int:
        """How many entries a neuron has."""
        shape = self.shape
        return shape.numel() // max(self.groups * shape[1] if self.transposed else shape[0], 1)

    def flatten(self, weight: Tensor) -> Tensor:
        """(groups, neurons, dim) view (a copy for transposed convolutions) of a tensor shaped like the weight."""
        if not self.transposed:
            return weight.reshape(self.groups, weight.shape[0] // self.groups, -1)
        grouped = weight.reshape(self.groups, weight.shape[0] // self.groups, weight.shape[1], -1)
        return grouped.transpose(1, 2).reshape(self.groups, weight.shape[1], -1)

    def unflatten(self, matrix: Tensor, shape: torch.Size) -> Tensor:
        """The inverse of :meth:`flatten`: back to a weight of ``shape``."""
        if not self.transposed:
            return matrix.reshape(shape)
        kernel = math.prod(shape[2:])
        grouped = matrix.reshape(self.groups, shape[1], shape[0] // self.groups, kernel)
        return grouped.transpose(1, 2).reshape(shape).contiguous()

    def matrix(self) -> Tensor:
        """The neurons now, (groups, neurons, dim); a weight that processes share is gathered."""
        return self.flatten(whole(self.weight))

    def in_memory_order(self) -> Tensor:
        """The neurons now with their entries in the order of memory, where that order does not matter.

        This takes no copy of a weight in channels-last order, as :meth:`matrix` does.
        """
        weight = whole(self.weight)
        if not self.transposed:
            strides = weight.stride()
            weight = weight.permute(0, *sorted(range(1, weight.dim()), key=lambda dim: -strides[dim]))
        return self.flatten(weight)


def _shape(module: nn.Module, name: str) -> torch.Size | None:
    """The shape of a tensor of a module, None if it has none."""
    if parametrize.is_parametrized(module, name):
        chain: Any = module.parametrizations[name]  # type: ignore[index]
        if all(isinstance(part, KeepsShape) for part in chain):
            return torch.Size(chain.original.shape)
    with modes_kept(module) as parts:
        for part in parts:  # reading a spectrally normalised weight is a power iteration in training mode
            part.training = False
        tensor = getattr(module, name, None)
    return tensor.shape if isinstance(tensor, Tensor) else None


def iter_neurons(model: nn.Module) -> Iterator[Neurons]:
    """Every weight of ``model`` that holds neurons, shared modules once, in definition order."""
    check_model(model)
    for name, module in named_layers(model):
        yield from _neurons_of(name, module)


def named_layers(model: nn.Module, remove_duplicate: bool = True) -> Iterator[tuple[str, nn.Module]]:
    """As ``model.named_modules``, without the modules that weights are computed by: they are no layers of the model."""
    computing = parametrizing(model)
    return (pair for pair in model.named_modules(remove_duplicate=remove_duplicate) if pair[1] not in computing)


def parametrizing(model: nn.Module) -> dict[nn.Module, str]:
    """The modules that weights are computed by, each with the name of the layer that has the weight."""
    found: dict[nn.Module, str] = {}
    for name, module in model.named_modules():
        if module not in found and parametrize.is_parametrized(module):
            found |= dict.fromkeys(module._modules["parametrizations"].modules(), name)
    return found


def _neurons_of(name: str, module: nn.Module) -> Iterator[Neurons]:
    if isinstance(module, _CONV):
        yield Neurons(name, module, "weight", module.groups)
    elif isinstance(module, _CONV_TRANSPOSED):
        yield Neurons(name, module, "weight", module.groups, transposed=True)
    elif isinstance(module, nn.Linear):
        yield Neurons(name, module, "weight")
    elif holds_columns(module):
        yield Neurons(name, module, "weight", transposed=True)
    elif isinstance(module, nn.RNNBase):
        for names in module._all_weights:
            for entry in names:
                if entry.startswith("weight_hr"):
                    yield Neurons(name, module, entry)
                elif entry.startswith("weight"):
                    yield Neurons(name, module, entry, _GATES[module.mode])
    elif isinstance(module, nn.MultiheadAttention):
        if module.in_proj_weight is not None:
            yield Neurons(name, module, "in_proj_weight", 3)
        else:
            for entry in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
                yield Neurons(name, module, entry)


def without_ties(found: Iterable[Neurons]) -> list[Neurons]:
    """One entry for each weight that several layers share; a parametrized one, made when it is read, has no other."""
    seen: set[int] = set()
    kept = []
    for neurons in found:
        if parametrize.is_parametrized(neurons.module, neurons.tensor_name):
            kept.append(neurons)
        elif id(neurons.weight) not in seen:
            seen.add(id(neurons.weight))
            kept.append(neurons)
    return kept


def check_kept(model: nn.Module, layers: Sequence[Neurons], reader: str) -> None:
    """Refuse layers that were replaced in the model: ``reader`` would go on with weights that the model has no more.

    A layer that was wrapped, moved or converted is kept: the module or its parameter is still there.
    """
    gone = [one for one in layers if _at(model, one.module_name) is not one.module]
    if not gone:
        return
    there = {id(part) for part in model.modules()} | {id(p) for p in model.parameters()}
    for one in gone:
        if id(one.module) not in there and id(one.module._parameters.get(one.tensor_name)) not in there:
            raise ValueError(
                f"{one.name} was replaced in {type(model).__name__} after {reader} was made, which reads the layer of "
                f"before: make {reader} again"
            )


def _at(model: nn.Module, name: str) -> nn.Module | None:
    """The module of this name; None if there is none, as below a wrapper that adds a name."""
    part: nn.Module | None = model
    for key in name.split(".") if name else ():
        part = None if part is None else part._modules.get(key)
    return part


_told: WeakSet[nn.Module] = WeakSet()


def with_directions(layers: Iterable[Neurons]) -> list[Neurons]:
    """Those whose neurons have two dimensions or more: the directions of one are ±1, and equal ones repel without end.

    One line of the log names the others, once for each layer.
    """
    kept: list[Neurons] = []
    flat: list[Neurons] = []
    for layer in layers:
        (flat if not layer.is_lazy and layer.dim == 1 else kept).append(layer)
    if any(layer.module not in _told for layer in flat):
        _told.update(layer.module for layer in flat)
        names = ", ".join(layer.name for layer in flat)
        logger.warning("left out of the energy: the neurons of %s have one dimension, and so no directions", names)
    return kept


def pick_neurons(
    layers: Sequence[Neurons], include: Patterns, skip: Patterns, *, argument: str = "include"
) -> list[Neurons]:
    """Those that ``include`` means (all, if None) and ``skip`` does not, by the name of the layer or of its weight."""
    names = list(dict.fromkeys(name for layer in layers for name in (layer.module_name, layer.name)))
    select(names, include, skip, argument=argument)  # for its complaint about patterns that match nothing

    def meant(layer: Neurons, patterns: Patterns) -> bool:
        return matches(layer.module_name, patterns) or matches(layer.name, patterns)

    return [one for one in layers if (include is None or meant(one, include)) and not meant(one, skip)]


def holds_columns(module: nn.Module) -> bool:
    """Whether the neurons of a linear layer are the columns of its weight: ``Conv1D`` of transformers and its twins."""
    named = any(base.__name__ in ("Conv1D", "DecoupledTransposedLinear") for base in type(module).__mro__)
    return named and len(_shape(module, "weight") or ()) == 2


def names_of(model: nn.Module) -> dict[int, str]:
    """id(module) → its first qualified name."""
    return {id(module): name for name, module in model.named_modules()}


def select(
    names: Sequence[str], include: Patterns = None, skip: Patterns = None, *, argument: str = "include"
) -> set[str]:
    """The names that match a pattern of ``include`` (all, if None) and none of ``skip``.

    Patterns are shell globs on qualified names (``"layer1.*"``). One that matches nothing is an
    error, since it is a typing mistake more often than a wish. ``argument`` is what callers call ``include``.
    """
    for said, patterns in ((argument, include), ("skip", skip)):
        for pattern in _as_tuple(patterns):
            if not any(matches(name, pattern) for name in names):
                shown = ", ".join(map(repr, list(names)[:8])) + (", ..." if len(names) > 8 else "")
                longer = f"; did you mean '*.{pattern}'?" if any(matches(n, f"*.{pattern}") for n in names) else ""
                raise ValueError(f"{said} pattern {pattern!r} matches none of: {shown}{longer}")
    return {
        name
        for name in names
        if (include is None or matches(name, include)) and not (skip is not None and matches(name, skip))
    }


def matches(name: str, patterns: Patterns) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in _as_tuple(patterns))


def is_named(name: str, patterns: Patterns) -> bool:
    """Whether ``name`` itself, without wildcards, is among the patterns."""
    return name in _as_tuple(patterns)


def _as_tuple(patterns: Patterns) -> tuple[str, ...]:
    if patterns is None:
        return ()
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)
