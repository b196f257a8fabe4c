"""Verification and identification: ROC on linear and logarithmic axes, and CMC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .._core.checks import check_choice
from ._data import float_values
from ._style import GREY, LINES, MARKERS, Figure, colours, entry, given_axes, label_axes, legend, new_figure, picture


@picture
def roc(curves: Any, *, scale: str | None = None, title: str | None = None) -> Figure:
    """True accept rate against false accept rate; the legend gives the area under each curve.

    Args:
        curves: a single curve, or a mapping from names to curves. A curve is a pair (far, tar) of equally long, rising
            sequences in [0, 1], or a result with ``.roc`` (``.fpr``, ``.tpr``), such as that of
            :func:`hypersphere.metrics.verification`.
        scale: scale of the FAR axis: ``"linear"`` (with the diagonal of chance), ``"log"``, or ``"both"`` side by side,
            which is the default where ``ax`` is not a single panel. A FAR of 0 cannot be shown on a logarithmic axis
            and is left out there.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If a curve is empty or does not rise, a rate leaves [0, 1], or ``scale`` is unknown.

    Example:
        >>> figure = hs.plots.roc(([0.0, 0.1, 1.0], [0.0, 0.9, 1.0]))
        >>> type(figure).__name__
        'Figure'
    """
    if scale is None:
        scale = "linear" if len(given_axes() or ()) == 1 else "both"
    check_choice("scale", scale, ("linear", "log", "both"))
    named = {name: _roc_curve(name, curve) for name, curve in _named("curves", curves).items()}
    scales = ("linear", "log") if scale == "both" else (scale,)
    size = (8.6, 4.0) if scale == "both" else (6.0, 4.4)
    figure, panels = new_figure(1, len(scales), size=size, share_y=True, title=title)
    shades = colours(len(named))
    lowest = min(float(far[far > 0].min()) if bool((far > 0).any()) else 1.0 for far, _ in named.values())
    for axes, kind in zip(panels, scales, strict=True):
        for index, (name, (far, tar)) in enumerate(named.items()):
            keep = far > 0 if kind == "log" else far >= 0
            area = float(torch.trapezoid(tar, far))
            style: dict[str, Any] = {"color": shades[index], "ls": LINES[index % len(LINES)], "lw": 1.8}
            axes.plot(far[keep].numpy(), tar[keep].numpy(), label=entry(f"{name} (AUC {area:.4f})"), **style)
        if kind == "log":
            axes.set_xscale("log")
            axes.set_xlim(min(lowest, 0.1), 1)
        else:
            axes.plot([0, 1], [0, 1], color=GREY, lw=0.8, label="_chance")
            axes.set_xlim(0, 1)
        axes.set_ylim(0, 1.02)
        label_axes(axes, "false accept rate (FAR)", "true accept rate (TAR)" if axes is panels[0] else "")
    legend(panels[0], loc="lower right")
    return figure


@picture
def cmc(curves: Any, *, max_rank: int | None = None, title: str | None = None) -> Figure:
    """Cumulative match characteristic: the share of probes whose match is among the first r candidates.

    Args:
        curves: a single curve, or a mapping from names to curves. A curve is a sequence of rates in [0, 1] for ranks 1,
            2, ..., a pair (ranks, rates), or a result with ``.cmc``, such as that of
            :func:`hypersphere.metrics.identification`.
        max_rank: show ranks up to this; None shows all. Beyond 50 ranks the axis is logarithmic.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If a curve is empty, its ranks do not rise from 1, or its rates fall or leave [0, 1].

    Example:
        >>> figure = hs.plots.cmc({"ours": [0.8, 0.9, 1.0]})
        >>> type(figure).__name__
        'Figure'
    """
    named = {name: _cmc_curve(name, curve) for name, curve in _named("curves", curves).items()}
    last = max(float(ranks.max()) for ranks, _ in named.values())
    if max_rank is not None:
        if max_rank < 1:
            raise ValueError(f"max_rank={max_rank!r} must be at least 1")
        last = min(last, float(max_rank))
    figure, (axes,) = new_figure()
    lowest = 1.0
    for index, ((name, (ranks, rates)), colour) in enumerate(zip(named.items(), colours(len(named)), strict=True)):
        keep = ranks <= last
        ranks, rates = ranks[keep], rates[keep]
        if not len(ranks):
            raise ValueError(f"curves[{name!r}] has no rank up to {last:g}: it starts at {float(named[name][0][0]):g}")
        lowest = min(lowest, float(rates.min()))
        style: dict[str, Any] = {"color": colour, "ls": LINES[index % len(LINES)], "lw": 1.8}
        if len(ranks) <= 50:
            style |= {"marker": MARKERS[index % len(MARKERS)], "ms": 4}
        label = f"{name} (rank-{ranks[0]:g} {100 * float(rates[0]):.1f}%)"
        axes.plot(ranks.numpy(), 100 * rates.numpy(), label=entry(label), **style)
    if last > 50:
        axes.set_xscale("log")
        axes.set_xlim(1, last)
    else:
        axes.set_xlim(0.5, last + 0.5)
        axes.locator_params(axis="x", integer=True)
    axes.set_ylim(100 * max(0.0, lowest - 0.25 * (1 - lowest) - 0.01), 100.5)
    label_axes(axes, "rank r", "identification rate (%)", title)
    legend(axes, loc="lower right")
    return figure


def _named(argument: str, curves: Any) -> dict[str, Any]:
    named = {str(name): curve for name, curve in curves.items()} if isinstance(curves, Mapping) else {"model": curves}
    if not named:
        raise ValueError(f"{argument} is empty: pass at least one curve")
    return named


def _roc_curve(name: str, curve: Any) -> tuple[Tensor, Tensor]:
    found = getattr(curve, "roc", curve)
    try:
        first, second = (found.fpr, found.tpr) if hasattr(found, "fpr") else tuple(found)[:2]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"curves[{name!r}] is not a pair (far, tar) and has no .roc: {type(curve).__name__}"
        ) from error
    far, tar = (_rates(f"curves[{name!r}] {part}", values) for part, values in (("far", first), ("tar", second)))
    if len(far) != len(tar) or len(far) < 2:
        raise ValueError(f"curves[{name!r}] has {len(far)} FARs and {len(tar)} TARs: pass equally many, at least two")
    order = torch.arange(len(far)) if float(far[0]) <= float(far[-1]) else torch.arange(len(far)).flip(0)
    far, tar = far[order], tar[order]
    if bool((far.diff() < 0).any()) or bool((tar.diff() < 0).any()):
        raise ValueError(f"curves[{name!r}] does not rise: sort it by threshold, FAR and TAR together")
    return far, tar


def _cmc_curve(name: str, curve: Any) -> tuple[Tensor, Tensor]:
    found = getattr(curve, "cmc", curve)
    if isinstance(found, tuple) and len(found) == 2 and all(hasattr(part, "__len__") for part in found):
        ranks = float_values(f"curves[{name!r}] ranks", found[0], 1)
        rates = _rates(f"curves[{name!r}] rates", found[1])
    else:
        rates = _rates(f"curves[{name!r}]", found)
        ranks = torch.arange(1, len(rates) + 1, dtype=torch.float64)
    if len(ranks) != len(rates):
        raise ValueError(f"curves[{name!r}] has {len(ranks)} ranks and {len(rates)} rates: pass equally many")
    if float(ranks.min()) < 1 or bool((ranks.diff() <= 0).any()) or bool((rates.diff() < 0).any()):
        raise ValueError(f"curves[{name!r}]: ranks must rise from 1 on, and rates must not fall")
    return ranks, rates


def _rates(argument: str, values: Any) -> Tensor:
    rates = float_values(argument, values, 1)
    if float(rates.min()) < 0 or float(rates.max()) > 1 + 1e-9:
        raise ValueError(
            f"{argument} reaches from {float(rates.min()):g} to {float(rates.max()):g}: pass rates in [0, 1]"
        )
    return rates
