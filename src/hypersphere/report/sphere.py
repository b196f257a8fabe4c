"""Features and class vectors as points on a sphere that can be turned.

Features of three dimensions are shown as they are, x/‖x‖. More are projected linearly: with unit features u and a
matrix P (3, d) of orthonormal rows, Pu/‖Pu‖. The rows of P are the principal axes of the class means of the unit
features, the directions in which the classes differ most; E‖Pu‖² is the share of the squared length that is kept.
Features of two dimensions are shown in their plane, with their lengths.
"""

from __future__ import annotations

import base64
import io
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .._core.png import png
from ..evaluation import Outputs
from ..functional import angle, unit

_CLASSES = 100  # shown at most; of an open set, whose classes are many and small:
_OPEN_CLASSES = 20


def sphere_view(found: Outputs, points: int = 2000, thumbnails: int = 0) -> dict[str, Any] | None:
    """Points for the page: coordinates in thousandths, class, prediction and angle; None for features of one dimension.

    ``thumbnails`` are the pixels that the pictures of all points may have together.
    """
    dim = found.features.shape[1]
    if dim < 2 or not len(found):
        return None
    chosen, classes = _sample(found, points)
    features, labels = found.features[chosen], found.labels[chosen]
    predicted = None if found.logits is None else found.logits[chosen].argmax(1)
    vectors = found.class_vectors if found.logits is not None else None  # those of other classes would mislead
    place = {int(label): index for index, label in enumerate(classes)}
    if vectors is not None:
        vectors = vectors[[c for c in classes if c < len(vectors)]] if max(classes) < len(vectors) else None
    if dim == 2:
        size = float(features.norm(dim=1).max()) or 1.0
        shown, arrows, text = features / size, None if vectors is None else unit(vectors), _PLANE
    else:
        axes, text = projection(found, chosen, classes)
        shown = unit(unit(features.double()) @ axes.mT)
        arrows = None if vectors is None else unit(unit(vectors.double()) @ axes.mT)
    degrees, to = _degrees(found, chosen)
    count = (
        f"{len(chosen):,} of {len(found):,} test samples"
        if len(chosen) < len(found)
        else f"All {len(found):,} test samples"
    )
    if len(classes) < len(found.classes):
        count += f", from the {len(classes)} of {len(found.classes)} classes with most of them"
    return {
        "kind": "plane" if dim == 2 else "sphere",
        "note": f"{count}. {text}",
        "points": _thousandths(shown),
        "labels": [place[int(label)] for label in labels],
        "predicted": None if predicted is None else [found.classes[int(one)] for one in predicted],
        "wrong": None if predicted is None else (predicted != labels).int().tolist(),
        "vectors": None if arrows is None else _thousandths(arrows),
        "classes": [found.classes[label] for label in classes],
        "degrees": degrees,
        "to": to,
        "sprite": None if found.images is None else _sprite(found.images[chosen], thumbnails),
    }


def _degrees(found: Outputs, chosen: Tensor) -> tuple[list[float], str]:
    """The angle of each feature to its class vector, or to the mean direction of its class where there is none."""
    units, labels = unit(found.features.double()), found.labels
    if found.logits is not None and found.class_vectors is not None and int(labels.max()) < len(found.class_vectors):
        centres, to = unit(found.class_vectors.double()), "its class vector"
    else:
        sums = torch.zeros(int(labels.max()) + 1, units.shape[1], dtype=torch.float64)
        centres, to = unit(sums.index_add_(0, labels, units)), "the mean of its class"
    cosines = (units[chosen] * centres[labels[chosen]]).sum(1)
    return [round(float(value), 1) for value in angle(cosines).rad2deg().nan_to_num(0.0)], to


def _sprite(images: Tensor, room: int) -> dict[str, Any] | None:
    """All pictures in one, in rows, at a size at which they have at most ``room`` pixels together."""
    count, channels, *shape = images.shape
    side = next((size for size in (32, 24, 16, 8) if count * size * size <= room), 0)
    if not side or channels not in (1, 3):
        return None
    side = min(side, max(shape))
    height, width = (max(1, round(one * side / max(shape))) for one in shape)
    small = images
    if (height, width) != tuple(shape):
        small = F.interpolate(images.float(), (height, width), mode="area").round().to(torch.uint8)
    columns = math.ceil(count**0.5)
    rows = math.ceil(count / columns)
    sheet = small.new_zeros(rows * columns, channels, height, width)
    sheet[:count] = small
    whole = sheet.unflatten(0, (rows, columns)).permute(2, 0, 3, 1, 4).reshape(channels, rows * height, columns * width)
    return {"src": _source(whole), "width": width, "height": height, "columns": columns}


def _source(image: Tensor) -> str:
    """Colour as JPEG, which takes a third of the bytes, where Pillow is there; all else as PNG."""
    if len(image) == 3:
        try:
            from PIL import Image
        except ImportError:
            return "data:image/png;base64," + base64.b64encode(png(image)).decode()
        file = io.BytesIO()
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(file, "JPEG", quality=80, subsampling=0)
        return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
    return "data:image/png;base64," + base64.b64encode(png(image)).decode()


_PLANE = (
    "The network's features have two dimensions and are shown as they are, with their lengths (the longest reaches the "
    "circle). Arrows are the directions of the class vectors."
)
_DIRECT = "The network's features have three dimensions: their directions x/‖x‖ are shown as they are."


def projection(found: Outputs, chosen: Tensor, classes: list[int]) -> tuple[Tensor, str]:
    """The rows of P (3, d), float64, and a sentence that says what they are and how much they keep."""
    dim = found.features.shape[1]
    if dim == 3:
        return torch.eye(3, dtype=torch.float64), _DIRECT
    units, labels = unit(found.features.double()), found.labels
    means = torch.stack([units[labels == label].mean(0) for label in classes])
    by_class = len(classes) > 3
    rows = means if by_class else units[chosen]
    axes = torch.linalg.svd(rows - rows.mean(0), full_matrices=False).Vh[:3]
    if len(axes) < 3:  # fewer than three samples: any further axes will do
        axes = torch.linalg.qr(torch.cat([axes, torch.eye(dim, dtype=torch.float64)]).mT).Q.mT[:3]
    kept = float((units[chosen] @ axes.mT).square().sum(1).mean())
    what = "class means of the unit features" if by_class else "unit features"
    return axes, (
        f"The directions of the {dim}-dimensional features, projected linearly on the first three principal axes of "
        f"the {what} and scaled back to the sphere. The projection keeps {100 * kept:.0f}% of the squared length, so "
        "points that seem close here may be far apart in the full space."
    )


def _sample(found: Outputs, points: int) -> tuple[Tensor, list[int]]:
    """Which samples are shown (drawn with a fixed seed) and which classes."""
    counts = torch.bincount(found.labels, minlength=len(found.classes))
    order = sorted(counts.nonzero().flatten().tolist(), key=lambda label: (-int(counts[label]), label))
    classes = sorted(order[: _CLASSES if found.logits is not None else _OPEN_CLASSES])
    among = torch.isin(found.labels, torch.tensor(classes)).nonzero().squeeze(1)
    drawn = torch.randperm(len(among), generator=torch.Generator().manual_seed(0), device="cpu")[:points]
    return among[drawn.sort().values], classes


def _thousandths(x: Tensor) -> list[int]:
    return (x.double() * 1000).round().long().flatten().tolist()
