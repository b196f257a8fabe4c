"""The hyperspherical energy of each layer of a network, as it is now."""

from __future__ import annotations

import math

import torch
from torch import nn

from ..functional import energy
from ..regularizers import MHE
from ._style import PALETTE, Figure, label_axes, legend, new_figure, picture, shorten


@picture
def layer_energies(
    model: nn.Module,
    head: nn.Module | None = None,
    *,
    s: float = 2.0,
    distance: str = "euclidean",
    half_space: bool = False,
    seed: int = 0,
    title: str | None = None,
) -> Figure:
    """Hyperspherical energy of each layer (thesis 5.1), beside that of equally many random directions.

    A bar longer than its tick means that the neurons are more crowded than random directions; a shorter bar means that
    they are spread more evenly. The output layer (``head``, or the last linear layer) is always in full space.

    Args:
        model: the network whose layers with neurons are shown.
        head: a module with the class vectors, if they are not in the model.
        s: power of the energy, ≥ 0; 0 is the logarithm.
        distance: ``"euclidean"`` takes ‖ŵ_i − ŵ_j‖ as the distance of two neurons, ``"angular"`` the angle between them
            (thesis 5.5).
        half_space: energy of {ŵ, −ŵ} in hidden layers.
        seed: seed of the random directions that each layer is compared with.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If the model has no layer with neurons, or weights that are not finite.

    Example:
        >>> figure = hs.plots.layer_energies(nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 3)))
        >>> type(figure).__name__
        'Figure'
    """
    meter = MHE(model, head, s=s, distance=distance, half_space=half_space)
    found = {name: float(value) for name, value in meter.layers().items()}
    bad = [name for name, value in found.items() if not math.isfinite(value)]
    if bad:
        raise ValueError(f"the energy of {bad[0]} is not finite: its weights hold NaN or infinite values")
    generator = torch.Generator().manual_seed(seed)
    chance = []
    last = meter.output_neurons
    for neurons in (*meter.hidden_neurons, *((last,) if last is not None else ())):
        random = torch.randn(neurons.matrix().shape, generator=generator, device="cpu")
        half = half_space and neurons is not last
        chance.append(float(energy(random, s, distance, half).mean()))
    names = [shorten(name.removesuffix(".weight").removesuffix(".op")) for name in found]
    figure, (axes,) = new_figure(size=(6.0, 1.3 + 0.32 * len(names)))
    places = range(len(names))
    axes.barh(places, list(found.values()), color=PALETTE[0], height=0.62, label="this network")
    axes.plot(chance, list(places), ls="", marker="|", ms=14, mew=2.2, color=PALETTE[1], label="random directions")
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.grid(False, axis="y")
    label_axes(axes, f"hyperspherical energy E{_subscript(s)} (mean of pairs)", "layer", title)
    legend(axes, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    return figure


def _subscript(s: float) -> str:
    return f"{s:g}".translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")) if float(s).is_integer() else f" (s = {s:g})"
