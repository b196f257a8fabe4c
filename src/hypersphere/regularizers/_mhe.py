"""Minimum hyperspherical energy (thesis 5.4): neurons that spread over directions."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from .._core.checks import check_choice, check_count, check_positive
from .._core.labels import as_indices, class_indices
from .._core.neurons import Neurons, Patterns, with_directions
from ..functional import class_energy, energy
from ..functional.energy import set_energies, weighted_energy
from ._base import Regularizer, total_of
from ._draws import DeviceDraws, key_of


class EnergyRegularizer(Regularizer):
    """λ_h · Σ_hidden E_s + λ_o · E_s(output), means over ordered pairs (thesis 5.4).

    Subclasses say which sets of vectors a hidden layer has energies of, and how they make its value; the output
    layer has the full-space energy of its class vectors, or of those in the batch when labels are passed
    (thesis 5.3.6). On a GPU all sets of all layers are computed together.
    """

    _unknown = False  # also of objects that an earlier version saved

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
        super().__init__(model, 1.0, head, output_layer=output_layer, include=include, skip=skip, seed=seed)
        if not isinstance(half_space, bool):
            raise TypeError(
                f"half_space={half_space!r} must be True or False: it concerns hidden layers; output layers are always "
                "in full space, where opposite class vectors are not redundant (thesis 5.3.4)"
            )
        self.hidden = check_positive("hidden", hidden, zero=True)
        self.output = check_positive("output", output, zero=True)
        self.s = check_positive("s", s, zero=True)
        self.distance = check_choice("distance", distance, ("euclidean", "angular"))
        self.half_space = half_space
        self._leave_out_flat()

    def _leave_out_flat(self) -> None:
        """Drop the layers whose neurons have one dimension, of lazy layers after the first batch."""
        self._unknown = any(neurons.is_lazy for neurons in self._all)
        every = self._all
        kept = with_directions(every)
        if not kept:
            raise ValueError(
                "there is no layer with neurons of two dimensions or more, and one dimension has no directions: "
                f"{', '.join(neurons.name for neurons in every)}"
            )
        self._hidden = tuple(neurons for neurons in self._hidden if neurons in kept)
        self._output = self._output if self._output in kept else None

    def _check_shapes(self) -> None:
        super()._check_shapes()
        if self._unknown:
            self._leave_out_flat()

    def _sets(self) -> tuple[list[list[Tensor]], list[Tensor | None]]:
        """Of each hidden layer the sets of this call, (..., N, d) tensors, and the lengths β of its neurons.

        No lengths where all are 1, and None for a layer where they are. Each weight is read once: a parametrized one
        is computed then, a sharded one gathered.
        """
        raise NotImplementedError

    def _layer_sets(self, neurons: Neurons) -> list[Tensor]:
        """The sets of one hidden layer, without this call's draws or steps."""
        raise NotImplementedError

    def _combine(self, energies: list[Tensor]) -> Tensor:
        """The value of a layer from the energies of its sets: their mean."""
        return energies[0].mean()

    def _shares(self, sets: list[Tensor]) -> list[float] | None:
        """What each set counts in :meth:`_combine`, None where that is not a sum."""
        return [1 / sets[0].shape[:-2].numel()]

    def _penalty(self, labels: Tensor | None) -> Tensor:
        hidden, betas = self._sets() if self._hidden and self.hidden else ([], [])
        output = self._output if self.output else None
        apart = output is not None and labels is not None
        classes = None if output is None else output.matrix()
        together = self._penalty_together(hidden, betas, None if apart else classes)
        if together is None:
            return self._penalty_by_layer(hidden, betas, classes, labels)
        if not apart or classes is None:
            return together
        return together + self.output * self._output_energy(classes, labels).to(together.device)

    def _penalty_by_layer(
        self, hidden: list[list[Tensor]], betas: list[Tensor | None], classes: Tensor | None, labels: Tensor | None
    ) -> Tensor:
        terms = []
        if hidden:
            every = [one for sets in hidden for one in sets]
            settings = self.s, self.distance, self.half_space
            weighted = [energy(one, *settings, beta) for one, beta in zip(every, betas, strict=False)]
            energies = iter(weighted or self._energies(every))
            values = [self._combine([next(energies) for _ in sets]) for sets in hidden]
            terms.append(self.hidden * total_of(values))
        if classes is not None:
            terms.append(self.output * self._output_energy(classes, labels))
        return total_of(terms) if terms else torch.zeros(())

    def _penalty_together(
        self, hidden: list[list[Tensor]], betas: list[Tensor | None], classes: Tensor | None
    ) -> Tensor | None:
        """The sum over all layers in one call, where there is one for them."""
        sets, factors, halves = [], [], []
        for layer in hidden:
            shares = self._shares(layer)
            if shares is None:
                return None
            sets += layer
            factors += [self.hidden * share for share in shares]
            halves += [self.half_space] * len(layer)
        if classes is not None:
            sets.append(classes)
            factors.append(self.output / classes.shape[0])
            halves.append(False)
        lengths = [*betas, *[None] * (len(sets) - len(betas))]
        return weighted_energy(sets, factors, self.s, self.distance, halves, lengths)

    def _energies(self, sets: list[Tensor]) -> list[Tensor]:
        return set_energies(sets, self.s, self.distance, [self.half_space] * len(sets))

    def _value(self, neurons: Neurons) -> Tensor:
        if neurons is self._output:
            return self._output_energy(neurons.matrix(), None)
        return self._combine(self._energies(self._layer_sets(neurons)))

    def _output_energy(self, classes: Tensor, labels: Tensor | None) -> Tensor:
        if labels is None or self._output is None:
            return energy(classes, self.s, self.distance).mean()
        head = getattr(self._output.module, "owner", self._output.module)
        ignored = getattr(head, "ignore_index", -100)  # the head's, else cross-entropy's
        each: int = getattr(head, "sub_centers", 1)
        labels = as_indices(labels).flatten()
        if each > 1:  # a class j has the rows j·K to j·K + K − 1
            rows, counts = class_indices(labels, classes.shape[1] // each, ignored, classes.device)
            rows = rows[:, None] * each + torch.arange(each, device=classes.device)
            labels, ignored = torch.where(counts[:, None], rows, -1).flatten(), -1
        return class_energy(classes.flatten(0, 1), labels, self.s, self.distance, ignore_index=ignored)


class MHE(EnergyRegularizer):
    """λ_h · Σ_hidden mean_{i≠j} ‖ŵ_i − ŵ_j‖^(−s) + λ_o · the same for the output layer (thesis 5.4).

    Call ``reg()`` in each step and add it to the loss. ``reg(labels)`` evaluates the output layer on the classes of the
    batch instead of all pairs (thesis 5.3.6). It leaves out labels that the head ignores (without a head: -100). Labels
    may have any shape, as for heads.

    The neurons of a convolution are its flattened filters. The energy is computed per group in grouped convolutions,
    per gate in LSTM and GRU, and per query, key and value in packed attention; the value of such a layer is the mean
    over these sets. Layers whose neurons have one dimension (``nn.Linear(1, 8)``) have no directions: they are left
    out, and the log names them.

    Args:
        model: The network whose neurons are regularized; it is not registered as a submodule.
        head: A module with a ``weight`` (num_classes, dim) that is the output layer; None: see ``output_layer``.
        hidden: λ_h; None is 10 in full space, 1 in half space (thesis D.1).
        output: weight λ_o of the output layer's energy, ≥ 0; 1 as in thesis D.1, 0 leaves the layer out.
        s: Power of the energy, ≥ 0; 0 is the logarithm. With a large s only the closest neurons matter.
        distance: ``"euclidean"`` or ``"angular"``, which takes arccos(ŵ_i·ŵ_j) instead.
        half_space: Energy of {ŵ, −ŵ} in hidden layers; the output layer is always in full space.
        output_layer: The output layer of the model, by name or module; None takes the one the model declares
            (``get_classifier``, ``num_classes``, ...), else the last linear layer.
        sample: Number of random neurons that each call uses of every larger hidden layer (thesis 5.3.6); None uses
            all.
        weights: β of hidden layers by name, one number for each neuron: the energy of β_i ŵ_i (thesis D.10). Neurons of
            larger β move less, e.g. those that are known to be good. Euclidean distance only. Kept as buffers.
        include: Glob patterns on layer or weight names; None takes all.
        skip: Patterns of layers that are left out.
        seed: Seed of all random draws; together with the number of calls it determines them.

    Shape:
        - Input: none, or labels (...).
        - Output: scalar.

    Raises:
        ValueError: If the model has no layer with neurons of two dimensions or more, a pattern matches nothing, or a
            weight is negative.
        TypeError: If ``model`` is not a module.

    Example:
        >>> model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))
        >>> reg = hs.regularizers.MHE(model)
        >>> reg().shape, list(reg.layers())
        (torch.Size([]), ['0.weight', '2.weight'])
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
        factor = (1.0 if half_space else 10.0) if hidden is None else hidden
        super().__init__(model, head, factor, output, s, distance, half_space, output_layer, include, skip, seed)
        self.sample = None if sample is None else check_count("sample", sample, minimum=2)
        self._weigh({} if weights is None else weights)

    def _weigh(self, weights: Mapping[str, Tensor]) -> None:
        """Check the β and keep them, one set of numbers for each set of neurons."""
        if not isinstance(weights, Mapping):
            raise TypeError(f"weights is a {type(weights).__name__}: give a dict from layer names to tensors")
        known: dict[str, list[Neurons]] = {}
        for neurons in self._hidden:
            for name in dict.fromkeys((neurons.module_name, neurons.name)):
                known.setdefault(name, []).append(neurons)
        weighed: dict[str, str] = {}
        for name, beta in weights.items():
            if name not in known:
                raise ValueError(f"weights has {name!r}, which is not a hidden layer: those are {', '.join(known)}")
            if len(known[name]) > 1:
                several = ", ".join(one.name for one in known[name])
                raise ValueError(f"weights has {name!r}, which has several sets of neurons: name them, {several}")
            (neurons,) = known[name]
            if neurons.name in weighed:
                raise ValueError(f"weights has {weighed[neurons.name]!r} and {name!r}, which are the same neurons")
            weighed[neurons.name] = name
            shape = neurons.matrix().shape[:2]
            fits = isinstance(beta, Tensor) and beta.numel() == shape.numel()
            if not fits or not bool(((beta > 0) & beta.isfinite()).all()):
                raise ValueError(
                    f"weights[{name!r}] must be a tensor of {shape.numel()} positive numbers, one per neuron"
                )
            matrix = neurons.matrix().detach()
            lengths = beta.detach().to(torch.promote_types(matrix.dtype, torch.float32)).reshape(shape)
            energy(matrix, self.s, self.distance, self.half_space, lengths)
            self.register_buffer(_beta(neurons), lengths)

    def _value(self, neurons: Neurons) -> Tensor:
        if neurons is self._output:
            return super()._value(neurons)
        matrix = neurons.matrix()
        return energy(matrix, self.s, self.distance, self.half_space, self._lengths(neurons, matrix.device)).mean()

    def _sets(self) -> tuple[list[list[Tensor]], list[Tensor | None]]:
        matrices = [neurons.in_memory_order() for neurons in self._hidden]
        orders = self._orders([matrix.shape[1] for matrix in matrices])
        sets = [[self._chosen(matrix, order)] for matrix, order in zip(matrices, orders, strict=True)]
        betas = [self._lengths(n, matrix.device) for n, matrix in zip(self._hidden, matrices, strict=True)]
        if all(beta is None for beta in betas):
            return sets, []
        placed = zip(betas, orders, strict=True)
        return sets, [None if beta is None else self._chosen(beta, order) for beta, order in placed]

    def _lengths(self, neurons: Neurons, device: torch.device) -> Tensor | None:
        """The β of a layer, if it has any."""
        return self._buffer_on(_beta(neurons), device) if _beta(neurons) in self._buffers else None

    def _chosen(self, values: Tensor, order: Tensor | None) -> Tensor:
        """Of each set in (groups, neurons, ...) what belongs to the first neurons of ``order``."""
        return values if order is None else values[:, order[: self.sample].to(values.device)]

    def _orders(self, counts: list[int]) -> list[Tensor | None]:
        """This call's order of the neurons of each layer, None for one that is not sampled."""
        larger = {
            n.name: count for n, count in zip(self._hidden, counts, strict=True) if self.sample and count > self.sample
        }
        if not larger or self._on_host():
            orders = {name: self.draws(name).permutation(count) for name, count in larger.items()}
        else:
            draws = DeviceDraws(key_of(self._counter[0], "sample", self._counter[1]))
            orders = dict(zip(larger, draws.permutations(list(larger.values())), strict=True))
        return [orders.get(neurons.name) for neurons in self._hidden]


def _beta(neurons: Neurons) -> str:
    return f"beta_{neurons.name.replace('.', '__')}"
