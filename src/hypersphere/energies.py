"""``hs.energy(model)``: how evenly the neurons of every layer spread, as a table in a terminal or a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ._core.arrays import as_numbers
from ._core.errors import check_floating
from ._core.neurons import Patterns, iter_neurons, pick_neurons, select, with_directions, without_ties
from ._core.streams import aligned, html_table
from .functional import energy as energy_of

__all__ = ["EnergyTable", "LayerEnergy", "energy"]


@dataclass(frozen=True)
class LayerEnergy:
    """One layer.

    Attributes:
        layer: Name of its weight.
        neurons, dim: Number of neurons in a set, and their dimension.
        sets: Sets of neurons: groups of a convolution, gates of a recurrent layer.
        energy: Mean over pairs and sets.
        random: Energy of equally many random directions.
    """

    layer: str
    neurons: int
    dim: int
    sets: int
    energy: float
    random: float


@dataclass(frozen=True)
class EnergyTable:
    """The energies of a model's layers. It prints as a table, and is an HTML table in a notebook.

    Attributes:
        layers: One entry for each layer.
        settings: The settings of the energy, in words.
    """

    layers: tuple[LayerEnergy, ...]
    settings: str

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[LayerEnergy]:
        return iter(self.layers)

    def __getitem__(self, name: str) -> LayerEnergy:
        for layer in self.layers:
            if layer.layer == name:
                return layer
        raise KeyError(f"{name!r} is not one of the layers {', '.join(layer.layer for layer in self.layers)}")

    def __repr__(self) -> str:
        return "\n".join([self._title(), *aligned([_HEADER, *self._cells()])])

    def _repr_html_(self) -> str:
        return html_table(self._title(), _HEADER, self._cells())

    def _title(self) -> str:
        return f"Hyperspherical energy, mean over pairs ({self.settings})"

    def _cells(self) -> Iterator[tuple[str, ...]]:
        for row in self.layers:
            count = f"{row.sets}×{row.neurons}" if row.sets > 1 else str(row.neurons)
            yield row.layer, count, str(row.dim), f"{row.energy:.6g}", f"{row.random:.6g}"


_HEADER = ("layer", "neurons", "dim", "energy", "random")


@torch.no_grad()
def energy(
    model: Any,
    s: float = 2.0,
    distance: str = "euclidean",
    half_space: bool = False,
    *,
    include: Patterns = None,
    skip: Patterns = None,
    seed: int = 0,
) -> EnergyTable:
    """Compute the hyperspherical energy of every layer of a model, beside that of random directions (thesis 5.1).

    An energy below that of random directions means that the neurons are spread more evenly than by chance. Layers whose
    neurons have one dimension have no directions: they are left out, and the log names them.

    Args:
        model: A model, or vectors: a tensor, NumPy array or list, one vector per row.
        s: Power of the distance, ≥ 0; 0 is the logarithm. With a large s only the closest neurons matter.
        distance: ``"euclidean"``, or ``"angular"`` for arccos(ŵ_i·ŵ_j) instead.
        half_space: Take the energy of {ŵ, −ŵ}: of lines instead of directions.
        include: Glob patterns on layer or weight names; None takes all.
        skip: Patterns of layers that are left out.
        seed: Seed of the random directions that each layer is compared with.

    Returns:
        A table: print it, show it in a notebook, iterate over it, or index it by the name of a layer.

    Raises:
        TypeError: If ``model`` is neither a model nor an array of numbers.
        ValueError: If there is no layer with two neurons of two dimensions, or the patterns leave none.

    Example:
        >>> import hypersphere as hs
        >>> hs.energy([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])["vectors"].neurons
        3
    """
    sets = {name: matrix for name, matrix in _sets(model, include, skip) if matrix.shape[1] > 1}
    if not sets:
        raise ValueError(
            f"no weight with two neurons or more, of two dimensions or more, is left by include={include!r} and "
            f"skip={skip!r}"
        )
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for name, matrix in sets.items():
        random = torch.randn(matrix.shape, generator=generator, device="cpu")
        values = (float(energy_of(w, s, distance, half_space).mean()) for w in (matrix, random))
        rows.append(LayerEnergy(name, matrix.shape[1], matrix.shape[2], matrix.shape[0], *values))
    return EnergyTable(tuple(rows), f"s = {s:g}, {distance}, {'half' if half_space else 'full'} space")


def _sets(model: Any, include: Patterns, skip: Patterns) -> Iterator[tuple[str, Tensor]]:
    """(name, (sets, neurons, dim)) of every weight that is meant, each once."""
    if not isinstance(model, nn.Module):
        matrix = as_numbers("model", model)
        check_floating("model", matrix)
        if matrix.dim() not in (2, 3):
            raise ValueError(f"model has shape {tuple(matrix.shape)}: pass a model, or vectors as rows, (n, d)")
        if matrix.shape[-1] == 1:
            raise ValueError(f"model has shape {tuple(matrix.shape)}: vectors of one dimension have no directions")
        for name in select(["vectors"], include, skip):
            yield name, matrix.detach().reshape(-1, *matrix.shape[-2:])
        return
    for neurons in with_directions(pick_neurons(without_ties(iter_neurons(model)), include, skip)):
        yield neurons.name, neurons.matrix().detach()
