"""What regularizers share: the layers they act on, a call count, reproducible draws, a place in ``state_dict``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from .._core.checks import check_count, check_positive
from .._core.errors import check_model
from .._core.modes import without_autocast
from .._core.neurons import Neurons, Patterns, check_kept, iter_neurons, pick_neurons, without_ties
from .._core.output_layer import find_output_layer
from .._core.sphere import upcast
from ._draws import DeviceDraws, Draws, HostDraws, host_generator, key_of


class Regularizer(nn.Module):
    """weight · Σ over layers of a value of their neurons: ``reg()`` each step, ``reg.layers()`` for logging.

    A regularizer of your own defines one method, :meth:`value`. Then it works in the training program as well:
    ``hypersphere train RECIPE --regularizer.name mypackage.mymodule:MyRegularizer --regularizer.weight 0.1``.

    The regularizer keeps a plain reference to the model: the model is not a submodule, and its weights are not
    parameters of the regularizer. Weights are read at each call, parametrized ones as the layer sees them, sharded ones
    (FSDP2) gathered. Copy or pickle model and regularizer together, so that they stay connected.

    The call count (advanced by calls in training mode only) and the seed are in ``state_dict``, and every random draw
    is a function of both, so a resumed run continues exactly. Both are kept in a tensor on the device of the weights,
    so that a call compiles once and can be captured in a CUDA graph.

    Args:
        model: The network whose neurons are regularized; it is not registered as a submodule.
        weight: Factor of the sum, ≥ 0: the strength of the regularizer.
        head: A module with a ``weight`` (num_classes, dim) that is the output layer, for models that end in features.
        output_layer: The output layer of the model, by name or module; None takes the one the model declares
            (``get_classifier``, ``num_classes``, ...), else the last linear layer.
        include: Glob patterns on layer names (``"layer1.*"``) or weight names (``"rnn.weight_hh*"``); None takes all.
        skip: Patterns of layers that are left out.
        seed: Seed of all random draws; together with the number of calls it determines them.

    Shape:
        - Input: none, or labels (...).
        - Output: scalar.

    Raises:
        ValueError: If no layer with neurons is left, or a pattern matches nothing.

    Example:
        >>> class Decorrelation(hs.regularizers.Regularizer):
        ...     def value(self, matrix, neurons):
        ...         unit = torch.nn.functional.normalize(matrix, dim=-1)
        ...         return (unit @ unit.mT).square().mean()
        >>> penalty = Decorrelation(nn.Linear(8, 4), weight=0.1)()
    """

    _counter: Tensor
    _model: tuple[nn.Module, bool] | None = None  # also of objects that an earlier version saved

    def __init__(
        self,
        model: nn.Module,
        weight: float = 1.0,
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
        self._model = (model, head is not None)  # in a tuple it is no submodule
        self.weight = check_positive("weight", weight, zero=True)
        start = torch.tensor([check_count("seed", seed, minimum=0), 0], device=beside(self._all[0].weight))
        self.register_buffer("_counter", start, persistent=False)
        self._compiled: Callable[[Tensor | None], Tensor] | None = None

    def value(self, matrix: Tensor, neurons: Neurons) -> Tensor:
        """Compute the unweighted value of one layer; every regularizer defines this method.

        Args:
            matrix: The layer's neurons (groups, neurons, dim), in single or double precision, outside autocast.
            neurons: Where they come from: ``neurons.name`` is the name of the weight in the model.

        Returns:
            The value of the layer, a scalar that is differentiable in ``matrix``.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no value(matrix, neurons): see Regularizer.value")

    def forward(self, labels: Tensor | None = None) -> Tensor:
        """Compute the penalty, to be added to the loss.

        Args:
            labels: class indices of the batch, of any shape, for regularizers that depend on them.

        Returns:
            The weighted penalty, a scalar that is differentiable in the weights.

        Raises:
            ValueError: If a layer was replaced in the model since the regularizer was made, or has no shape yet.
        """
        self._check_layers()
        total = (self._compiled or self._penalty)(labels)
        if self.training:
            self._counter[1:].add_(1)
        return total

    @torch.no_grad()
    def layers(self) -> dict[str, Tensor]:
        """Compute the value of each layer, for logging.

        Returns:
            The unweighted values by weight name.

        Raises:
            ValueError: As for a call of the regularizer.
        """
        self._check_layers()
        return {neurons.name: self._value(neurons) for neurons in self._all}

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile the penalty with ``torch.compile``. Copies and pickles are not compiled.

        Args:
            *args: positional arguments that are passed on to ``torch.compile``.
            **kwargs: arguments of ``torch.compile`` by name: ``fullgraph``, ``dynamic``, ``backend``, ``mode`` and
                ``options``.
        """
        self._compiled = torch.compile(self._penalty, *args, **kwargs)

    @property
    def hidden_neurons(self) -> tuple[Neurons, ...]:
        """The hidden layers that the regularizer acts on."""
        return self._hidden

    @property
    def output_neurons(self) -> Neurons | None:
        """The output layer, if the regularizer acts on it."""
        return self._output

    @property
    def seed(self) -> int:
        """The seed of every random draw."""
        return int(self._counter[0])

    @property
    def steps(self) -> int:
        """Number of calls in training mode so far; reading it synchronises with a GPU."""
        return int(self._counter[1])

    def draws(self, purpose: str) -> Draws:
        """Return random numbers for this call, with ``.normal``, ``.permutation`` and ``.integers``.

        They depend on the seed, the call count and ``purpose``. On a CPU they come from a ``torch.Generator``. On a
        GPU, and where the call is compiled, they are computed from the counter on the device, without waiting for the
        host.

        Args:
            purpose: a word that separates one use of random numbers from another.

        Returns:
            A source of random numbers for this call and purpose.
        """
        if self._on_host():
            return HostDraws(host_generator(self.seed, purpose, self.steps))
        return DeviceDraws(key_of(self._counter[0], purpose, self._counter[1]))

    def get_extra_state(self) -> Tensor:
        return self._counter.cpu()

    def set_extra_state(self, state: Tensor) -> None:
        self._counter.copy_(state)

    def extra_repr(self) -> str:
        output = self._output.name if self._output is not None else None
        return f"hidden={[neurons.name for neurons in self._hidden]}, output={output!r}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_compiled": None}

    # For the regularizers of this package ------------------------------------------------------------

    @property
    def _all(self) -> tuple[Neurons, ...]:
        return (*self._hidden, *([self._output] if self._output is not None else []))

    def _penalty(self, labels: Tensor | None) -> Tensor:
        """The weighted sum over layers."""
        return self.weight * total_of([self._value(neurons) for neurons in self._all])

    def _value(self, neurons: Neurons) -> Tensor:
        """The unweighted value of one layer."""
        matrix = neurons.matrix()
        with without_autocast(matrix.device):
            return self.value(upcast(matrix), neurons)

    def _buffer_on(self, key: str, device: torch.device) -> Tensor:
        """A buffer beside a layer, moved there once: a graph that is recorded cannot copy from the host."""
        buffer = self.get_buffer(key)
        if buffer.device == device:
            return buffer
        moved = buffer.to(device)
        if not torch.compiler.is_compiling() and device.type != "meta":
            self.register_buffer(key, moved)
        return moved

    def _on_host(self) -> bool:
        """Whether the call count can be read without waiting for a device."""
        return not torch.compiler.is_compiling() and self._counter.device.type == "cpu"

    def _check_layers(self) -> None:
        """The layers are those of the model still, and have shapes."""
        if self._model is not None and not torch.compiler.is_compiling():
            model, has_head = self._model
            check_kept(model, self._hidden if has_head else self._all, type(self).__name__)
        self._check_shapes()

    def _check_shapes(self) -> None:
        """Lazy layers have a shape after the first batch only."""
        for neurons in self._all:
            if neurons.is_lazy:
                raise ValueError(f"{neurons.name} has no shape yet: run one batch through the model first")


class HiddenRegularizer(Regularizer):
    """A :class:`Regularizer` of hidden layers only: it does not touch the output layer.

    Args:
        model: The network whose neurons are regularized; it is not registered as a submodule.
        weight: Factor of the sum, ≥ 0: the strength of the regularizer.
        head: A module with a ``weight`` (num_classes, dim) that is the output layer, for models that end in features.
        output_layer: The output layer of the model, by name or module; None takes the one the model declares
            (``get_classifier``, ``num_classes``, ...), else the last linear layer.
        include: Glob patterns on layer or weight names; None takes all hidden layers.
        skip: Patterns of layers that are left out.
        seed: Seed of all random draws; together with the number of calls it determines them.

    Shape:
        - Output: scalar.

    Raises:
        ValueError: If the model has no hidden layer, or a pattern matches nothing.

    Example:
        >>> class Short(hs.regularizers.HiddenRegularizer):
        ...     def value(self, matrix, neurons):
        ...         return matrix.square().sum()
        >>> list(Short(nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 2))).layers())
        ['0.weight']
    """

    def __init__(
        self,
        model: nn.Module,
        weight: float = 1.0,
        head: nn.Module | None = None,
        *,
        output_layer: nn.Module | str | None = None,
        include: Patterns = None,
        skip: Patterns = None,
        seed: int = 0,
    ) -> None:
        super().__init__(model, weight, head, output_layer=output_layer, include=include, skip=skip, seed=seed)
        self._output = None
        if not self._hidden:
            raise ValueError(
                f"{type(model).__name__} has no hidden layer: {type(self).__name__} does not act on the output layer"
            )


def beside(weight: Tensor) -> torch.device:
    """Where numbers of a layer are kept: with its weight, of one on the meta device, which holds none, on the host."""
    return torch.device("cpu") if weight.is_meta else weight.device


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
    found = without_ties(iter_neurons(model))
    last = find_output_layer(model, head, output_layer)
    output: Neurons | None = None
    if last is not None:
        name, module = last
        inside = {id(part) for part in module.modules()}
        own = [neurons for neurons in found if neurons.module is module]
        found = [neurons for neurons in found if id(neurons.module) not in inside]
        if not own and isinstance(getattr(module, "weight", None), Tensor):
            own = [Neurons(name, module, "weight")]
        if not own and module is head:
            own = [replace(one, module_name=f"{name}.{one.module_name}") for one in iter_neurons(module)]
        if len(own) != 1:
            raise ValueError(
                f"output layer {name!r} ({type(module).__name__}) has no single weight of class vectors: call its "
                "parameter `weight` (num_classes, in_features)"
            )
        output = own[0]
    candidates = [*found, *([output] if output is not None else [])]
    if not candidates:
        raise ValueError(
            f"{type(model).__name__} has no layer with neurons: no convolution, linear, recurrent or attention weight"
        )
    kept = pick_neurons(candidates, include, skip)
    if not kept:
        shown = ", ".join(neurons.name for neurons in candidates[:8])
        raise ValueError(f"no layer is left by include={include!r} and skip={skip!r} of: {shown}")
    return tuple(n for n in kept if n is not output), output if output in kept else None
