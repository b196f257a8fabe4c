"""Minimum hyperspherical energy (thesis 5.4): neurons that spread over directions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .._core.errors import check_choice, check_count, check_positive
from .._core.neurons import Neurons, Patterns
from ..functional import class_energy, energy
from ._base import Regularizer, total_of

__all__ = ["MHE", "EnergyRegularizer"]


class EnergyRegularizer(Regularizer):
    """λ_h · Σ_hidden E_s + λ_o · E_s(output), means over ordered pairs (thesis 5.4).

    Subclasses say what the energy of a hidden layer is; the output layer has the full-space energy
    of its class vectors, or of those in the batch when labels are passed (thesis 5.3.6).
    """

    def __init__(
        self,
        model: nn.Module,
        head: nn.Module | None,
        hidden: float,
        output: float,
        s: float,
        distance: str,
        half_space: bool,
        output_layer: nn.Module | str | None,
        include: Patterns,
        skip: Patterns,
        seed: int,
    ) -> None:
        super().__init__(model, head, output_layer=output_layer, include=include, skip=skip, seed=seed)
        if not isinstance(half_space, bool):
            raise TypeError(
                f"half_space={half_space!r} must be True or False: it concerns hidden layers; output layers are always "
                "in full space, where opposite class vectors are no redundancy (thesis 5.3.4)"
            )
        self.hidden = check_positive("hidden", hidden, zero=True)
        self.output = check_positive("output", output, zero=True)
        self.s = check_positive("s", s, zero=True)
        self.distance = check_choice("distance", distance, ("euclidean", "angular"))
        self.half_space = half_space

    def _penalty(self, labels: Tensor | None) -> Tensor:
        terms = []
        if self._hidden and self.hidden:
            terms.append(self.hidden * total_of(self._hidden_energies()))
        if self._output is not None and self.output:
            terms.append(self.output * self._output_energy(self._output, labels))
        return total_of(terms) if terms else torch.zeros(())

    def _hidden_energies(self) -> list[Tensor]:
        return [self._value(neurons) for neurons in self._hidden]

    def _output_energy(self, neurons: Neurons, labels: Tensor | None) -> Tensor:
        if labels is None:
            return energy(neurons.matrix(), self.s, self.distance).mean()
        ignored = getattr(neurons.module, "ignore_index", -100)  # the head's, else cross-entropy's
        return class_energy(neurons.matrix().flatten(0, 1), labels, self.s, self.distance, ignore_index=ignored)


class MHE(EnergyRegularizer):
    """λ_h · Σ_hidden mean_{i≠j} ‖ŵ_i − ŵ_j‖^(−s) + λ_o · the same for the output layer (thesis 5.4).

    ``reg()`` each step, added to the loss; ``reg(labels)`` takes the batch's classes in the output
    layer instead of all pairs (thesis 5.3.6), without labels that the head ignores (without a head: -100).

    Args:
        hidden: λ_h; None is 10 in full space, 1 in half space (thesis D.1).
        output: λ_o, 1 (thesis D.1).
        s, distance, half_space: as in :func:`hypersphere.functional.energy`. Half space applies to
            hidden layers only; the output layer is always in full space.
        sample: take so many random neurons of each larger hidden layer at each call (thesis 5.3.6);
            None takes all.
        weights: β of hidden layers by name, one number for each neuron: the energy of β_i ŵ_i (thesis D.10). Neurons of
            larger β move less, e.g. those that are known to be good. Euclidean distance only. Kept as buffers.

    Convolutions count their flattened filters (grouped ones per group, LSTM and GRU weights per gate,
    packed attention per query, key and value: means over the sets).
    """

    def __init__(
        self,
        model: nn.Module,
        head: nn.Module | None = None,
        hidden: float | None = None,
        output: float = 1.0,
        s: float = 2.0,
        distance: str = "euclidean",
        half_space: bool = False,
        output_layer: nn.Module | str | None = None,
        *,
        sample: int | None = None,
        weights: Mapping[str, Tensor] | None = None,
        include: Patterns = None,
        skip: Patterns = None,
        seed: int = 0,
    ) -> None:
        weight = (1.0 if half_space else 10.0) if hidden is None else hidden
        super().__init__(model, head, weight, output, s, distance, half_space, output_layer, include, skip, seed)
        self.sample = None if sample is None else check_count("sample", sample, minimum=2)
        self._weigh({} if weights is None else weights)

    def _weigh(self, weights: Mapping[str, Tensor]) -> None:
        """Check the β and keep them, one set of numbers for each set of neurons."""
        known = {name: neurons for neurons in self._hidden for name in (neurons.module_name, neurons.name)}
        for name, beta in weights.items():
            if name not in known:
                raise ValueError(f"weights has {name!r}, which is no hidden layer: those are {', '.join(known)}")
            neurons = known[name]
            shape = neurons.matrix().shape[:2]
            if not isinstance(beta, Tensor) or beta.numel() != shape.numel() or not bool((beta > 0).all()):
                raise ValueError(
                    f"weights[{name!r}] must be a tensor of {shape.numel()} positive numbers, one a neuron"
                )
            energy(neurons.matrix().detach(), self.s, self.distance, self.half_space, beta.float().reshape(shape))
            self.register_buffer(_beta(neurons), beta.detach().float().reshape(shape))

    def _refuse_to_compile(self) -> None:
        if self.sample is not None:
            raise ValueError(f"sample={self.sample} draws while it computes: it cannot be compiled; use sample=None")

    def _hidden_energies(self) -> list[Tensor]:
        return [self._energy(*self._sampled(neurons)) for neurons in self._hidden]

    def _value(self, neurons: Neurons) -> Tensor:
        if neurons is self._output:
            return self._output_energy(neurons, None)
        return self._energy(neurons.matrix(), self._buffers.get(_beta(neurons)))

    def _energy(self, matrix: Tensor, beta: Tensor | None) -> Tensor:
        weights = None if beta is None else beta.to(matrix.device)
        return energy(matrix, self.s, self.distance, self.half_space, weights).mean()

    def _sampled(self, neurons: Neurons) -> tuple[Tensor, Tensor | None]:
        """The neurons of this call, and their β if they have some."""
        matrix, beta = neurons.matrix(), self._buffers.get(_beta(neurons))
        count = matrix.shape[1]
        if self.sample is None or self.sample >= count:
            return matrix, beta
        chosen = torch.randperm(count, generator=self._generator(neurons.name, self.steps))[: self.sample]
        return matrix[:, chosen.to(matrix.device)], None if beta is None else beta[:, chosen.to(beta.device)]


def _beta(neurons: Neurons) -> str:
    return f"beta_{neurons.name.replace('.', '__')}"
