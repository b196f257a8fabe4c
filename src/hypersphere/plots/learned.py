"""Parameters that a network learns beside its weights: curvatures k and radii ρ, layer by layer."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from .._core.checks import check_count
from .._core.errors import check_model
from ..angular import Sigmoid
from ..magnitude import Magnitude
from ._data import float_values
from ._style import PALETTE, Figure, label_axes, legend, new_figure, picture, shorten


@picture
def learned_k(model: nn.Module, *, bins: int = 24, title: str | None = None) -> Figure:
    """Histograms of the learned curvature k of sigmoid angular functions, a panel for each layer.

    A dashed line marks the initial value. A layer with a single k (``share="layer"`` or ``"network"``) is drawn as a
    point. All panels have the same axis of k.

    Args:
        model: holds layers with a learnable k.
        bins: number of bars of a histogram.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If the model learns no k.

    Example:
        >>> figure = hs.plots.learned_k(hs.nn.SphereLinear(8, 6, angular=hs.angular.Sigmoid(learnable=True)))
        >>> type(figure).__name__
        'Figure'
    """
    check_model(model)
    values, starts = {}, []
    for name, module in model.named_modules():
        if isinstance(module, Sigmoid) and module.raw_k is not None:
            layer = "all layers" if module.share == "network" else _layer_name(name, "angular")
            values[layer] = float_values(f"k of {layer}", module.k).flatten()
            starts.append(module._fixed)
    if not values:
        raise ValueError("the model learns no k: build it with angular=hs.angular.Sigmoid(learnable=True)")
    return _histograms(values, "curvature k", starts, bins, title)


@picture
def learned_rho(model: nn.Module, *, effective: bool = False, bins: int = 24, title: str | None = None) -> Figure:
    """The learned radius ρ of magnitude functions, a point for each layer, and their histogram.

    A dashed line marks the initial value.

    Args:
        model: holds layers with a learnable ρ (ball, tanh, segment).
        effective: draw ρ times the running mean norm, the radius that applies at test time (thesis C.1), not ρ itself.
        bins: number of bars of the histogram.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If the model learns no ρ.

    Example:
        >>> figure = hs.plots.learned_rho(hs.nn.DecoupledLinear(8, 6, magnitude="tanh"))
        >>> type(figure).__name__
        'Figure'
    """
    check_model(model)
    values, starts = {}, []
    for name, module in model.named_modules():
        if isinstance(module, Magnitude) and getattr(module, "raw_rho", None) is not None:
            layer = _layer_name(name, "magnitude")
            rho = float_values(f"ρ of {layer}", module.rho).flatten()
            running = getattr(module, "running_norm", None)
            if effective and isinstance(running, Tensor):
                rho = rho * float_values(f"running_norm of {layer}", running)
            values[layer] = rho
            starts.append(getattr(module, "_fixed", math.nan))
    if not values:
        raise ValueError('the model learns no ρ: build it with magnitude="tanh", "ball" or "segment"')
    quantity = "radius ρ · mean ‖x‖" if effective else "radius ρ"
    return _histograms(values, quantity, [] if effective else starts, bins, title)


def _histograms(values: dict[str, Tensor], quantity: str, starts: list[float], bins: int, title: str | None) -> Figure:
    """A panel of bars for each layer with several values; one panel of points, and one of bars, if each has one."""
    check_count("bins", bins, minimum=2)
    everything = torch.cat(list(values.values()))
    marks = sorted(set(starts))
    low, high = min([float(everything.min()), *marks]), max([float(everything.max()), *marks])
    room = 0.06 * (high - low) or 0.1 * abs(high) or 0.1
    edges = torch.linspace(low - room, high + room, bins + 1, dtype=torch.float64).numpy()
    if all(len(one) == 1 for one in values.values()):
        return _points(values, everything, quantity, marks, edges, title)
    columns = 2 if len(values) == 4 else min(3, len(values))
    rows = math.ceil(len(values) / columns)
    figure, panels = new_figure(
        rows, columns, size=(max(6.0, 2.7 * columns), 2.1 * rows + 0.6), share_x=True, title=title
    )
    for axes in panels[len(values) :]:
        axes.set_axis_off()
    for index, (axes, (name, layer)) in enumerate(zip(panels, values.items(), strict=False)):
        axes.hist(layer.numpy(), bins=list(edges), color=PALETTE[0], alpha=0.85, label="learned")
        _start_lines(axes, marks)
        bottom = index >= len(values) - columns
        label_axes(axes, quantity if bottom else "", "filters" if index % columns == 0 else "", shorten(name))
        axes.tick_params(labelbottom=True)
        axes.locator_params(axis="y", integer=True, nbins=4)
    if marks:
        legend(panels[0])
    return figure


def _points(
    values: dict[str, Tensor], everything: Tensor, quantity: str, marks: list[float], edges: Any, title: str | None
) -> Figure:
    figure, (left, right) = new_figure(1, 2, size=(7.2, max(2.6, 1.2 + 0.3 * len(values))), title=title)
    places = range(len(values))
    left.plot(everything.numpy(), list(places), ls="", marker="o", ms=6, color=PALETTE[0], label="learned")
    left.set_yticks(places, [shorten(name) for name in values])
    left.invert_yaxis()
    left.set_xlim(float(edges[0]), float(edges[-1]))
    right.hist(everything.numpy(), bins=list(edges), color=PALETTE[0], alpha=0.85, label="learned")
    right.locator_params(axis="y", integer=True)
    for axes in (left, right):
        _start_lines(axes, marks)
    label_axes(left, quantity, "layer")
    label_axes(right, quantity, "layers")
    if marks:
        legend(right, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    return figure


def _start_lines(axes: Any, marks: list[float]) -> None:
    for number, mark in enumerate(marks):
        axes.axvline(mark, color=PALETTE[1], lw=1.3, ls=(0, (4, 2)), label="start" if not number else "_start")


def _layer_name(name: str, attribute: str) -> str:
    """The layer that holds an h or g: its name without the wrapping of our networks."""
    return name.removesuffix(f".{attribute}").removesuffix(".op") or name
