"""The hyperspherical energies of a network: what logs, evaluation and reports call its energy."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from ._mhe import MHE


@dataclass(frozen=True)
class Energies:
    """Mean energies over pairs of neurons, by weight name.

    Attributes:
        hidden: Energy of every hidden layer by the name of its weight.
        output: Energy of the output layer, in full space; empty without one.

    Example:
        >>> found = hs.regularizers.energies(nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3)))
        >>> list(found.hidden), list(found.output)
        (['0.weight'], ['1.weight'])
    """

    hidden: dict[str, float]
    output: dict[str, float]

    @property
    def layers(self) -> dict[str, float]:
        """The energies of all layers, the output layer last."""
        return self.hidden | self.output

    @property
    def mean(self) -> float | None:
        """The energy of the network: the mean over its hidden layers. None without any."""
        return sum(self.hidden.values()) / len(self.hidden) if self.hidden else None


def energies(
    model: nn.Module,
    head: nn.Module | None = None,
    *,
    s: float = 2.0,
    distance: str = "euclidean",
    half_space: bool = False,
    output_layer: nn.Module | str | None = None,
) -> Energies:
    """The energy of each layer of a network, E_s = mean_{i≠j} ‖ŵ_i − ŵ_j‖^(−s) (thesis 5.1, 5.4).

    Args:
        model: The network whose layers with neurons are measured.
        head: A module with a ``weight`` (num_classes, dim) that is the output layer; None: see ``output_layer``.
        s: Power s ≥ 0 of the distance; 0 gives the logarithmic energy, 2 is the default of thesis ch. 5.
        distance: ``"euclidean"`` takes ‖ŵ_i − ŵ_j‖ as the distance of two neurons, ``"angular"`` the angle between them
            (thesis 5.5).
        half_space: Energy of {ŵ, −ŵ} in hidden layers.
        output_layer: The output layer of the model, by name or module; None takes the one the model declares
            (``get_classifier``, ``num_classes``, ...), else the last linear layer.

    Returns:
        The energies by layer; ``.mean`` is the mean over the hidden layers. Layers whose neurons have one dimension
        have no energy and are left out. The result is empty if the model has no neurons.

    Example:
        >>> found = hs.regularizers.energies(nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3)))
        >>> found.mean > 0
        True
    """
    try:
        meter = MHE(model, head, s=s, distance=distance, half_space=half_space, output_layer=output_layer, output=0.0)
    except ValueError as error:
        if "no layer with neurons" in str(error):
            return Energies({}, {})
        raise
    values = {name: float(value) for name, value in meter.layers().items()}
    last = meter.output_neurons
    output = {last.name: values.pop(last.name)} if last is not None else {}
    return Energies(values, output)
