"""How evenly the neurons of a network spread: the hyperspherical energy of its layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ..regularizers import Energies, energies
from ..runs import Classifier, Gan
from .candidate import Candidate
from .measurement import measurement


@torch.no_grad()
def layer_energies(network: nn.Module, *, half_space: bool = False) -> Energies:
    """Mean over pairs of ‖ŵ_i − ŵ_j‖⁻² in each layer of a trained network (thesis 5.1).

    Names are those of the network itself, without its head; of a GAN they are the discriminator's. The energies of
    weights that are normalised in the forward pass are those of their directions.

    Args:
        network: A trained network, with or without a head, or a GAN.
        half_space: Count each neuron of a hidden layer together with its opposite.

    Returns:
        Energies by weight name.

    Example:
        >>> from hypersphere.evaluation import layer_energies
        >>> len(layer_energies(hs.load("runs/digits")).hidden) > 0
        True
    """
    body, head = network, None
    if isinstance(network, Classifier):
        body, head = network.network, network.head
    elif isinstance(network, Gan):
        body = network.discriminator
    return energies(body, head, half_space=half_space)


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
    about="hyperspherical energy of the hidden layers (s = 2), as in the log",
    quantities=(),  # the log declares it
    also=False,
    suits=("closed", "open", "gan"),
    details=_details,
    lines=_lines,
)
def energy(candidate: Candidate) -> dict[str, float]:
    """``energy``: the mean over the hidden layers of the mean over pairs of ‖ŵ_i − ŵ_j‖⁻²."""
    mean = layer_energies(candidate.network).mean
    return {} if mean is None else {"energy": mean}
