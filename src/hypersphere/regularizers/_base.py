"""What regularizers share: the layers they act on, a step count, reproducible draws, a place in ``state_dict``."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from .._core.errors import check_count, check_model
from .._core.neurons import Neurons, Patterns, iter_neurons, select
from .._core.output_layer import find_output_layer

__all__ = ["Regularizer", "total_of"]


class Regularizer(nn.Module, ABC):
    """A penalty on the neurons of a model: ``reg()`` each step, ``reg.layers()`` for logging.

    The model is held by plain reference: it is no submodule of the regularizer, and its weights are
    none of the regularizer's parameters. Weights are read at each call, parametrized ones as the
    layer sees them. Copy or pickle model and regularizer together, so that they stay connected.

    The call count (advanced by calls in training mode only) and the seed are in ``state_dict``, and
    every random draw is a function of both: a resumed run continues as if never stopped.

    Args:
        head: a module with a ``weight`` (num_classes, dim) that is the output layer, for models that
            end in features.
        output_layer: the output layer of the model, by name or module; None is the last linear layer.
        include, skip: glob patterns on layer names (``"layer1.*"``) or weight names (``"rnn.weight_hh*"``).
    """

    def __init__(
        self,
        model: nn.Module,
        head: nn.Module | None = None,
        *,
        output_layer: nn.Module | str | None = None,
        include: Patterns = None,
        skip: Patterns = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        check_model(model, head)
        self._hidden, self._output = _find(model, head, output_layer, include, skip)
        self.seed = check_count("seed", seed, minimum=0)
        self.steps = 0
        self._compiled: Callable[[Tensor | None], Tensor] | None = None

    def forward(self, labels: Tensor | None = None) -> Tensor:
        self._check_shapes()
        if self.training:
            self._prepare()
        total = (self._compiled or self._penalty)(labels)
        if self.training:
            self.steps += 1
        return total

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the penalty with ``torch.compile(..., *args, **kwargs)``; worth it on GPUs, where launches dominate.

        The bookkeeping of a call stays outside, so that nothing is compiled twice. Copies and pickles
        are not compiled.
        """
        self._refuse_to_compile()
        self._compiled = torch.compile(self._penalty, *args, **kwargs)

    def _refuse_to_compile(self) -> None:
        """Raise ValueError where a call does more than compute."""

    def _prepare(self) -> None:
        """What a call in training mode does before it computes."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_compiled": None}

    @torch.no_grad()
    def layers(self) -> dict[str, Tensor]:
        """The unweighted value of each layer, by weight name."""
        self._check_shapes()
        values = {neurons.name: self._value(neurons) for neurons in self._hidden}
        if self._output is not None:
            values[self._output.name] = self._value(self._output)
        return values

    @abstractmethod
    def _penalty(self, labels: Tensor | None) -> Tensor:
        """The weighted sum over layers."""

    @abstractmethod
    def _value(self, neurons: Neurons) -> Tensor:
        """The unweighted value of one layer."""

    def _check_shapes(self) -> None:
        """Lazy layers have a shape after the first batch only."""
        for neurons in (*self._hidden, *([self._output] if self._output is not None else [])):
            if isinstance(neurons.module._parameters.get(neurons.tensor_name), nn.parameter.UninitializedParameter):
                raise ValueError(f"{neurons.name} has no shape yet: run one batch through the model first")

    def _generator(self, purpose: str, index: int) -> torch.Generator:
        """A CPU generator that depends on the seed, on what is drawn, and on which draw it is."""
        mixed = (self.seed * 1_000_003 + zlib.crc32(purpose.encode())) * 1_000_003 + index
        return torch.Generator().manual_seed(mixed % 2**63)

    def get_extra_state(self) -> Tensor:
        return torch.tensor([self.seed, self.steps])

    def set_extra_state(self, state: Tensor) -> None:
        self.seed, self.steps = (int(entry) for entry in state)

    def extra_repr(self) -> str:
        output = self._output.name if self._output is not None else None
        return f"hidden={[neurons.name for neurons in self._hidden]}, output={output!r}"


def total_of(values: Sequence[Tensor]) -> Tensor:
    """Their sum, on the device of the first."""
    total = values[0]
    for value in values[1:]:
        total = total + value.to(total.device)
    return total


def _find(
    model: nn.Module,
    head: nn.Module | None,
    output_layer: nn.Module | str | None,
    include: Patterns,
    skip: Patterns,
) -> tuple[tuple[Neurons, ...], Neurons | None]:
    """The hidden layers and the output layer that the patterns leave."""
    found = _without_ties(list(iter_neurons(model)))
    last = find_output_layer(model, head, output_layer)
    output: Neurons | None = None
    if last is not None:
        name, module = last
        inside = {id(part) for part in module.modules()}
        own = [neurons for neurons in found if neurons.module is module]
        found = [neurons for neurons in found if id(neurons.module) not in inside]
        if not own and isinstance(getattr(module, "weight", None), Tensor):
            own = [Neurons(name, module, "weight")]
        if len(own) != 1:
            raise ValueError(f"output layer {name!r} ({type(module).__name__}) has no single weight of class vectors")
        output = own[0]
    candidates = [*found, *([output] if output is not None else [])]
    if not candidates:
        raise ValueError(
            f"{type(model).__name__} has no layer with neurons: no convolution, linear, recurrent or attention weight"
        )
    names = list(dict.fromkeys(name for neurons in candidates for name in (neurons.module_name, neurons.name)))
    included = select(names, include)
    skipped = select(names, skip) if skip is not None else set()
    kept = [n for n in candidates if {n.module_name, n.name} & included and not {n.module_name, n.name} & skipped]
    if not kept:
        raise ValueError(f"no layer is left by include={include!r} and skip={skip!r} of: {', '.join(names[:8])}")
    return tuple(n for n in kept if n is not output), output if output in kept else None


def _without_ties(found: list[Neurons]) -> list[Neurons]:
    """One entry for each weight that several layers share."""
    seen: set[int] = set()
    kept = []
    for neurons in found:
        if parametrize.is_parametrized(neurons.module, neurons.tensor_name):
            kept.append(neurons)
        elif id(neurons.weight) not in seen:
            seen.add(id(neurons.weight))
            kept.append(neurons)
    return kept
