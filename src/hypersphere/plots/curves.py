"""The functions behind everything, drawn: g(θ), h(‖x‖) and ψ(θ) (thesis Figures 3.2, 4.3, 2.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import angular as angular_module
from .. import magnitude as magnitude_module
from .._core.checks import check_count, check_positive
from .._core.registries import ANGULAR, MAGNITUDES
from .._core.registry import Registry
from ..angular import AngularLike
from ..functional import angular_from_angle, magnitude, psi
from ..functional.magnitude import DEFAULT_BETA
from ..functional.magnitude import MAGNITUDES as BUILT_IN
from ._data import float_values
from ._style import INK, LINES, Axes, Figure, colours, entry, label_axes, legend, new_figure, picture


@picture
def angular_curves(
    functions: Mapping[str, AngularLike] | Sequence[str] | None = None,
    *,
    k: Sequence[float] = (0.1, 0.3, 0.5, 1.0),
    points: int = 721,
) -> Figure:
    """g(θ) on [0°, 180°]: every g that has a name, and the sigmoid for each ``k`` (thesis Figures 3.2, 4.3).

    Args:
        functions: names of angular functions to draw, or a mapping from labels to objects of
            :mod:`hypersphere.angular` (or your own with ``from_cos``). None draws every g that has a name. A g with one
            k per filter gives one line for each filter.
        k: curvatures of the sigmoid, one line each.
        points: number of points of each line.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If a function gives values that are not finite, or ``points`` is below 2.

    Example:
        >>> figure = hs.plots.angular_curves(["cosine", "linear"])
        >>> type(figure).__name__
        'Figure'
    """
    theta = torch.linspace(0, math.pi, check_count("points", points, minimum=2), dtype=torch.float64)
    if functions is None:
        named = [entry for entry in ANGULAR.entries() if entry.name != "sigmoid"]
        lines = {entry.label: _from_cos(entry.value(), theta) for entry in named}
        lines |= {
            f"sigmoid, k = {value:g}": angular_from_angle(theta, "sigmoid", float(value))
            for value in float_values("k", k, 1, empty=True).tolist()
        }
    else:
        objects = _by_label(functions, ANGULAR, angular_module.resolve)
        lines = _given("functions", objects, lambda g: _from_cos(g, theta))
    figure, (axes,) = new_figure()
    _draw(axes, theta.rad2deg(), lines)
    label_axes(axes, "angle θ between w and x (degrees)", "g(θ)")
    _angle_axis(axes)
    return figure


@picture
def magnitude_curves(
    functions: Mapping[str, Callable[[Tensor], Tensor]] | Sequence[str] | None = None,
    *,
    alpha: float = 1.0,
    rho: float = 1.0,
    maximum: float = 3.0,
    points: int = 601,
) -> Figure:
    """h(‖x‖) of every h that has a name, with its parameters (thesis Figure 4.3 left, 4.4-4.10).

    Args:
        functions: names of magnitude functions to draw, or a mapping from labels to objects of
            :mod:`hypersphere.magnitude` (or any callable of the norm). None draws every h that has a name. ρ is
            multiplied by the mean norm of the layer if the object does so.
        alpha: α of the built-in ones, > 0.
        rho: ρ of the built-in ones, > 0; β is its default (0.5 for segment, 1 for mix).
        maximum: largest norm on the horizontal axis, > 0.
        points: number of points of each line.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If a function gives values that are not finite, or ``maximum`` is not positive.

    Example:
        >>> figure = hs.plots.magnitude_curves(["ball", "tanh"])
        >>> type(figure).__name__
        'Figure'
    """
    norm = torch.linspace(0, check_positive("maximum", maximum), check_count("points", points, minimum=2)).double()
    if functions is None:
        lines = {_magnitude_label(kind, alpha, rho): magnitude(norm, kind, alpha, rho=rho) for kind in MAGNITUDES}
    else:
        objects = _by_label(functions, MAGNITUDES, magnitude_module.resolve)
        lines = _given("functions", objects, lambda h: _evaluate(h, norm))
    for values in lines.values():
        if float(values[0]) == 0.0 and float(values[1]) > 0.3 * float(values.max()):
            values[0] = math.nan  # the sphere's h jumps at ‖x‖ = 0: no line from there
    figure, (axes,) = new_figure()
    _draw(axes, norm, lines)
    label_axes(axes, "norm ‖x‖ of the patch", "h(‖x‖)")
    axes.set_xlim(0, maximum)
    axes.set_ylim(bottom=0)
    return figure


@picture
def psi_curves(
    margins: Sequence[float] = (1, 2, 3, 4), *, kind: str = "cosine", annealing: float = 0.0, points: int = 1441
) -> Figure:
    """ψ(θ) = (−1)^k·cos(mθ) − 2k for each margin m; m = 1 is the softmax's cos θ (thesis Figure 2.3, eq. 2.6).

    Args:
        margins: values of m ≥ 1, integer or not; one line each.
        kind: which g is continued to ψ: ``"cosine"`` (L- and A-Softmax) or ``"square_cosine"`` (GA-Softmax).
        annealing: λ ≥ 0; draws (λ·cos θ + ψ(θ))/(1 + λ), the target's curve early in training (thesis 2.2.7).
        points: number of points of each line.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If ``margins`` is empty or holds a number below 1, or ``kind`` is unknown.

    Example:
        >>> figure = hs.plots.psi_curves((1, 4))
        >>> type(figure).__name__
        'Figure'
    """
    margins = float_values("margins", margins, 1).tolist()
    lam = check_positive("annealing", annealing, zero=True)
    theta = torch.linspace(0, math.pi, check_count("points", points, minimum=2), dtype=torch.float64)
    plain = psi(theta.cos(), 1, kind)
    lines = {_margin_label(m): (lam * plain + psi(theta.cos(), m, kind)) / (1 + lam) for m in margins}
    figure, (axes,) = new_figure()
    _draw(axes, theta.rad2deg(), lines)
    label_axes(axes, "angle θ to the target's class vector (degrees)", "ψ(θ)" if not lam else f"ψ(θ), λ = {lam:g}")
    _angle_axis(axes)
    return figure


def _by_label(functions: Any, table: Registry[Any], resolve: Callable[[str], Any]) -> Any:
    """Names as label → object; anything else as it is."""
    if isinstance(functions, Mapping) or not isinstance(functions, Sequence):
        return functions
    names = [functions] if isinstance(functions, str) else functions
    if not all(isinstance(name, str) for name in names):
        return functions
    return {table.label(name): resolve(name) for name in names}


def _magnitude_label(kind: str, alpha: float, rho: float) -> str:
    if kind not in BUILT_IN:
        return MAGNITUDES.label(kind)
    parts = [f"α = {alpha:g}"]
    parts += [f"β = {DEFAULT_BETA[kind]:g}"] if kind in DEFAULT_BETA else []
    parts += [f"ρ = {rho:g}"] if any(one.name == "rho" for one in MAGNITUDES.entry(kind).parameters) else []
    return f"{MAGNITUDES.label(kind)} ({', '.join(parts)})"


def _margin_label(m: float) -> str:
    return f"m = {m:g}" + (" (softmax)" if m == 1 else "")


def _given(argument: str, functions: Mapping[str, Any], values: Callable[[Any], Tensor]) -> dict[str, Tensor]:
    if not isinstance(functions, Mapping) or not functions:
        raise ValueError(f"{argument} must map at least one label to a function, not {functions!r}")
    lines = {}
    for name, function in functions.items():
        line = values(function)
        if not line.isfinite().all():
            raise ValueError(f"{argument}[{name!r}] gives NaN or infinite values: it must be finite")
        lines[str(name)] = line
    return lines


def _from_cos(g: AngularLike, theta: Tensor) -> Tensor:
    """(points,), or (points, filters) for a g with parameters of each filter, which has its channels in dim 1."""
    if not hasattr(g, "from_cos"):
        raise TypeError(f"functions holds {g!r}: pass an object of hs.angular, or one of your own with from_cos")
    k = getattr(g, "k", None)
    cos = theta.cos()
    if isinstance(k, Tensor) and k.ndim:
        cos = cos[:, None].expand(-1, len(k)).to(k.device)
    return g.from_cos(cos).detach().cpu().double()


def _evaluate(h: Callable[[Tensor], Tensor], norm: Tensor) -> Tensor:
    """h without the side effects of training: a running mean is read, not updated."""
    if not isinstance(h, magnitude_module.Magnitude):
        return h(norm).detach().cpu().double()
    training = h.training
    try:
        return h.eval()(norm.to(_device_of(h))).detach().cpu().double()
    finally:
        h.train(training)


def _device_of(module: torch.nn.Module) -> torch.device:
    tensors = [*module.parameters(), *module.buffers()]
    return tensors[0].device if tensors else torch.device("cpu")


def _draw(axes: Axes, x: Tensor, lines: Mapping[str, Tensor]) -> None:
    for index, ((name, values), colour) in enumerate(zip(lines.items(), colours(len(lines)), strict=True)):
        many = values.ndim == 2 and values.shape[1] > 1
        drawn = axes.plot(
            x.numpy(), values.numpy(), color=colour, ls=LINES[index % len(LINES)], lw=0.7 if many else 1.8
        )
        drawn[0].set_label(entry(name))
        for extra in drawn[1:]:
            extra.set_label(f"_{name}")
    legend(axes)


def _angle_axis(axes: Axes) -> None:
    axes.set_xlim(0, 180)
    axes.set_xticks(range(0, 181, 30))
    axes.axhline(0, color=INK, lw=0.6, zorder=1)
