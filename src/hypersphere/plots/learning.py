"""What happened during training: any logged number over steps, and the energy of the layers."""

from __future__ import annotations

from typing import Any

from .._core.checks import check_choice
from ..runs.quantities import declared, quantity
from ._series import BANDS, band_of, named_runs, run_keys, seed_series
from ._style import LINES, Axes, Figure, colours, entry, label_axes, legend, new_figure, picture, shorten


@picture
def learning_curves(
    runs: Any,
    key: str = "accuracy",
    *,
    band: str = "range",
    label: str | None = None,
    log_scale: bool = False,
    title: str | None = None,
) -> Figure:
    """A logged value over training steps: the mean over the seeds of each run, in a band.

    Args:
        runs: a run folder, a list of them, or a mapping from names to runs. A run is a folder, a ``runs.Run``, one log
            (a list of records with ``"step"``), one pair (steps, values), or a list of logs or pairs, one for each
            seed.
        key: name of the number in the records, e.g. ``"accuracy"``, ``"loss"``, ``"test_loss"``.
        band: ``"range"`` from the lowest to the highest seed, or ``"std"`` for mean ± sample standard deviation. Seeds
            that were logged at different steps are interpolated linearly, each from its first to its last step.
        label: label of the vertical axis; None makes one from the key. Values are drawn as logged (accuracies in
            percent).
        log_scale: whether the vertical axis is logarithmic; all values must then be positive.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If a run never logged ``key``, ``band`` is unknown, or a logarithmic axis has values ≤ 0.

    Example:
        >>> figure = hs.plots.learning_curves({"ours": ([1, 2, 3], [10.0, 50.0, 80.0])})
        >>> type(figure).__name__
        'Figure'
    """
    check_choice("band", band, BANDS)
    named = named_runs(runs)
    figure, (axes,) = new_figure()
    _draw(axes, {name: seed_series(name, run, key) for name, run in named.items()}, band, log_scale)
    label_axes(axes, "training step", label or _axis(key), title)
    legend(axes)
    return figure


@picture
def energy_curves(runs: Any, key: str = "energy", *, band: str = "range", title: str | None = None) -> Figure:
    """Hyperspherical energy over training: of all layers together, then layer by layer for each run that logged it.

    Args:
        runs: as in :func:`learning_curves`; records hold ``key`` (the mean over layers, as training logs it) and may
            hold ``key/LAYER`` for each layer.
        key: the name of the number in the records.
        band: ``"range"`` or ``"std"``, as in :func:`learning_curves`.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If a run logged no energy, or ``band`` is unknown.

    Example:
        >>> figure = hs.plots.energy_curves({"ours": [{"step": 1, "energy": 0.6}, {"step": 2, "energy": 0.5}]})
        >>> type(figure).__name__
        'Figure'
    """
    check_choice("band", band, BANDS)
    named = named_runs(runs)
    layers = {name: [k for k in run_keys(run) if k.startswith(f"{key}/")] for name, run in named.items()}
    detailed = [name for name, keys in layers.items() if keys]
    columns = 1 + len(detailed)
    figure, panels = new_figure(1, columns, size=(max(6.0, 3.6 * columns), 3.9), title=title)
    _draw(panels[0], {name: seed_series(name, run, key) for name, run in named.items()}, band, False)
    label_axes(panels[0], "training step", "hyperspherical energy (mean of pairs)", "all layers")
    legend(panels[0])
    for axes, name in zip(panels[1:], detailed, strict=True):
        labels = _layer_labels([k.removeprefix(f"{key}/") for k in layers[name]])
        of_layers = {label: seed_series(name, named[name], k) for label, k in zip(labels, layers[name], strict=True)}
        _draw(axes, of_layers, band, False, count_seeds=False)
        label_axes(axes, "training step", "", f"{name}, by layer")
        shown = -(-len(axes.lines) // _ENTRIES)  # colours of many layers run with depth: a few of them tell all
        legend(axes, handles=axes.lines[::shown])
    for axes in panels[2:]:
        axes.sharey(panels[1])  # layers of different runs, to be compared
    if detailed:
        panels[1].autoscale(axis="y")
    return figure


_ENTRIES = 9


def _axis(key: str) -> str:
    """The words for a logged number, as it is logged; a key that is not declared is shown as it is."""
    if key not in (one.key for one in declared()):
        return key
    known = quantity(key)
    words = known.label[0].lower() + known.label[1:]
    return f"{words} ({known.unit})" if known.unit and known.factor == 1 else words


def _layer_labels(names: list[str]) -> list[str]:
    """Weights named by their layers, short, where that leaves them apart."""
    short = [shorten(name.removesuffix(".weight").removesuffix(".op"), 20) for name in names]
    return short if len(set(short)) == len(short) else names


def _draw(axes: Axes, named: dict[str, Any], band: str, log_scale: bool, count_seeds: bool = True) -> None:
    for index, ((name, series), colour) in enumerate(zip(named.items(), colours(len(named)), strict=True)):
        found = band_of(series, band)
        if log_scale and not bool((found.mean > 0).all()):
            raise ValueError(f"runs[{name!r}] has values ≤ 0: they cannot be shown on a logarithmic axis")
        steps = found.steps.numpy()
        label = name if found.seeds == 1 or not count_seeds else f"{name} ({found.seeds} seeds)"
        style: dict[str, Any] = {"color": colour, "ls": LINES[index % len(LINES)], "lw": 1.8}
        if len(steps) == 1:
            style |= {"marker": "o"}
        axes.plot(steps, found.mean.numpy(), label=entry(label), **style)
        if found.seeds > 1:
            low, high = found.low.numpy(), found.high.numpy()
            axes.fill_between(steps, low, high, color=colour, alpha=0.18, lw=0, label=f"_{name} band")
    if log_scale:
        axes.set_yscale("log")
    axes.margins(x=0.01)
