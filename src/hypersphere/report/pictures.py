"""Images as PNG data URIs."""

from __future__ import annotations

import base64

import torch
from torch import Tensor
from torch.nn import functional as F

from .._core.png import png

__all__ = ["data_uri", "png"]


def data_uri(image: Tensor, size: int = 96) -> str:
    """An image for ``src=``, averaged down to at most ``size`` pixels a side."""
    if image.shape[0] not in (1, 3):  # e.g. two channels: show their mean
        image = image.float().mean(0, keepdim=True).round().to(torch.uint8)
    longest = max(image.shape[1:])
    if longest > size:
        target = [max(1, round(side * size / longest)) for side in image.shape[1:]]
        image = F.interpolate(image[None].float(), target, mode="area")[0].round().clamp(0, 255).to(torch.uint8)
    return "data:image/png;base64," + base64.b64encode(png(image)).decode()
