"""How much inputs must be changed before a network is wrong (thesis Figure C.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._data import float_values
from ._style import LINES, Figure, colours, entry, label_axes, legend, new_figure, picture


@picture
def perturbation_sizes(sizes: Mapping[str, Any], *, norm: str = "ℓ₂ norm", title: str | None = None) -> Figure:
    """The size of the change that fools a network, sample by sample in order of size; the legend has the medians.

    Args:
        sizes: mapping from the name of a network to the size of the change of each sample, e.g.
            ``(x̃ − x).flatten(1).norm(dim=1)`` of :func:`hypersphere.attacks.deepfool`.
        norm: name of the norm that the sizes are measured in, for the axis label.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If ``sizes`` is empty or holds a negative number.

    Example:
        >>> figure = hs.plots.perturbation_sizes({"CNN": torch.rand(50), "SphereNet": 2 * torch.rand(50)})
        >>> type(figure).__name__
        'Figure'
    """
    if not isinstance(sizes, Mapping) or not sizes:
        raise ValueError(f"sizes={sizes!r} must map the name of each network to the sizes of its samples")
    figure, (axes,) = new_figure()
    shades = colours(len(sizes))
    for index, (name, values) in enumerate(sizes.items()):
        ordered = float_values(f"sizes[{name!r}]", values, 1).sort().values
        if float(ordered[0]) < 0:
            raise ValueError(f"sizes[{name!r}] holds {float(ordered[0])}: sizes of changes must not be negative")
        label = f"{name} (median {float(ordered.quantile(0.5)):.3g})"
        style: dict[str, Any] = {"color": shades[index], "ls": LINES[index % len(LINES)], "lw": 1.8}
        axes.plot(range(len(ordered)), ordered.numpy(), label=entry(label), **style)
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
    label_axes(axes, "samples, by size", f"change that fools the network, {norm}", title)
    legend(axes, loc="upper left")
    return figure
