"""How evenly the neurons of a network spread: the hyperspherical energy of its layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from .._core.output_layer import find_output_layer
from ..regularizers import MHE
from ..runs import Classifier, Gan
from .candidate import Candidate
from .measurement import measurement

__all__ = ["LayerEnergies", "energy", "layer_energies"]


@dataclass(frozen=True)
class LayerEnergies:
    """The energy of each hidden layer, and of the output layer, which holds the class vectors, by weight."""

    hidden: dict[str, float]
    output: dict[str, float]

    @property
    def mean(self) -> float | None:
        """Over the hidden layers; None where there are none."""
        return sum(self.hidden.values()) / len(self.hidden) if self.hidden else None


@torch.no_grad()
def layer_energies(network: nn.Module, *, half_space: bool = False) -> LayerEnergies:
    """Mean over pairs of ‖ŵ_i − ŵ_j‖⁻² in each layer of what :func:`hypersphere.load` gives (thesis 5.1).

    Names are those of the network itself, without its head; of a GAN they are the discriminator's. Weights that are
    normalised on the way out do not count this as a step.

    Args:
        network: A trained network, with or without a head, or a GAN.
        half_space: Count each neuron of a hidden layer with its opposite.
    """
    body, head = network, None
    if isinstance(network, Classifier):
        body, head = network.network, network.head
    elif isinstance(network, Gan):
        body = network.discriminator
    try:
        meter = MHE(body, head, half_space=half_space)
    except ValueError:  # no layer with neurons
        return LayerEnergies({}, {})
    last = find_output_layer(body, head)
    layers = {name: float(value) for name, value in meter.layers().items()}
    outer = [name for name in layers if last is not None and name == f"{last[0]}.weight"]
    return LayerEnergies(
        {name: value for name, value in layers.items() if name not in outer}, {name: layers[name] for name in outer}
    )


def _details(candidate: Candidate) -> dict[str, Any]:
    found = layer_energies(candidate.network)
    return {"mean": found.mean, "layers": found.hidden, "output_layer": found.output}


def _lines(part: Mapping[str, Any]) -> list[str]:
    rows = {"mean of hidden layers": part["mean"], **part["layers"]}
    rows |= {f"{name} (output layer)": value for name, value in part["output_layer"].items()}
    return [f"  {name:32s} {value:.4f}" for name, value in rows.items() if value is not None]


@measurement(
    "energy",
    label="Energy",
    about="hyperspherical energy of the hidden layers (s = 2), as the log has it",
    also=False,
    suits=("closed", "open", "gan"),
    details=_details,
    lines=_lines,
)
def energy(candidate: Candidate) -> dict[str, float]:
    """``energy``: the mean over the hidden layers of the mean over pairs of ‖ŵ_i − ŵ_j‖⁻²."""
    mean = layer_energies(candidate.network).mean
    return {} if mean is None else {"energy": mean}
