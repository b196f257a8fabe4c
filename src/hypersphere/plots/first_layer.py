"""The filters of a first layer, as images."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .._core.checks import check_choice, check_count
from .._core.neurons import iter_neurons
from ._data import float_values
from ._style import INK, SIZES, Figure, new_figure, picture


@picture
def filters(
    source: nn.Module | Tensor,
    *,
    image_shape: Sequence[int] | None = None,
    columns: int | None = None,
    max_filters: int = 64,
    normalize: str = "filter",
    title: str | None = None,
) -> Figure:
    """First-layer filters as a grid of images: RGB for 3 input channels, else from −1 to 1 around white.

    Args:
        source: a model, of which the first layer with neurons is drawn, or a weight (filters, channels, height, width).
            With other than 1 or 3 channels each row is a filter, each column a channel.
        image_shape: (channels, height, width) of the inputs of a linear first layer.
        columns: filters in a row; None makes the grid as square as possible.
        max_filters: largest number of filters; the first ones are drawn.
        normalize: ``"filter"`` divides each filter by its own largest entry, ``"layer"`` all by that of the layer.
        title: text above the picture; None has none.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If there are no filters to draw, or ``image_shape`` does not fit them.

    Example:
        >>> figure = hs.plots.filters(nn.Conv2d(3, 8, 5))
        >>> type(figure).__name__
        'Figure'
    """
    check_count("max_filters", max_filters)
    check_choice("normalize", normalize, ("filter", "layer"))
    weight = _first_weight(source, image_shape)[:max_filters]
    reach = weight.abs().amax((1, 2, 3), keepdim=True) if normalize == "filter" else weight.abs().max()
    weight = weight / torch.where(reach > 0, reach, 1.0)
    colour = weight.shape[1] == 3
    if not colour:
        columns = weight.shape[1] if weight.shape[1] > 1 else columns
        weight = weight.flatten(0, 1)[:, None]
    across = check_count("columns", columns) if columns else math.ceil(math.sqrt(len(weight)))
    canvas = _tile(weight, across)
    rows = canvas.shape[0] / canvas.shape[1]
    figure, (axes,) = new_figure(size=(6.0 if not colour else 5.4, min(9.0, max(1.6, 5.2 * rows + 0.3))))
    axes.set_axis_off()
    if colour:
        axes.imshow(((canvas + 1) / 2).nan_to_num(1.0).numpy(), interpolation="nearest")
    else:
        image = axes.imshow(canvas[..., 0].numpy(), cmap="PuOr_r", vmin=-1, vmax=1, interpolation="nearest")
        bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02)
        bar.set_label(f"weight / largest of the {normalize}", fontsize=SIZES["label"], color=INK)
        bar.ax.tick_params(labelsize=SIZES["tick"], colors=INK)
    if title is not None:
        axes.set_title(title, fontsize=SIZES["title"], color=INK)
    return figure


def _first_weight(source: nn.Module | Tensor, image_shape: Sequence[int] | None) -> Tensor:
    if isinstance(source, nn.Module):
        first = next(iter_neurons(source), None)
        if first is None:
            raise ValueError(f"{type(source).__name__} has no layer with neurons: there are no filters to draw")
        weight, name = first.weight, first.name
    else:
        weight, name = source, "source"
    values = float_values(name, weight)
    if values.ndim == 2 and image_shape is not None:
        if values.shape[1] != math.prod(image_shape) or len(image_shape) != 3:
            raise ValueError(
                f"image_shape={tuple(image_shape)} must be (channels, height, width) with {values.shape[1]} numbers"
            )
        values = values.reshape(-1, *image_shape)
    if values.ndim != 4:
        hint = "; give image_shape=(channels, height, width) for a linear layer" if values.ndim == 2 else ""
        raise ValueError(
            f"{name} has shape {tuple(values.shape)}: filters are (filters, channels, height, width){hint}"
        )
    return values


def _tile(images: Tensor, across: int) -> Tensor:
    """(n, c, h, w) → one (H, W, c) picture, each weight 4 × 4 pixels, two of NaN (blank) between the images."""
    images = images.repeat_interleave(4, 2).repeat_interleave(4, 3)
    count, channels, height, width = images.shape
    down = math.ceil(count / across)
    canvas = torch.full((down * (height + 2) - 2, across * (width + 2) - 2, channels), math.nan, dtype=torch.float64)
    for index, image in enumerate(images):
        top, left = index // across * (height + 2), index % across * (width + 2)
        canvas[top : top + height, left : left + width] = image.permute(1, 2, 0)
    return canvas
