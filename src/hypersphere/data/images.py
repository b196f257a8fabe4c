"""Image files to uint8 tensors, with Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["SUFFIXES", "decode", "decode_all", "to_tensor"]

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"})


def decode(path: Path, mode: str = "RGB") -> Image:
    """The decoded picture in ``mode``; an unreadable file is named."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("image files are decoded with Pillow: pip install 'hypersphere[train]'") from error
    try:
        with Image.open(path) as image:
            return image.convert(mode)
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError) as error:
        raise ValueError(f"{path} cannot be decoded as an image: {error}") from error


def to_tensor(image: Image) -> Tensor:
    """A ``(C, H, W)`` uint8 copy of the pixels."""
    channels = len(image.getbands())
    flat = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return flat.view(image.height, image.width, channels).permute(2, 0, 1).contiguous()


def decode_all(paths: Sequence[Path], mode: str = "RGB", threads: int = 8) -> Tensor:
    """All pictures as one ``(N, C, H, W)`` uint8 tensor; they must be of one size."""
    if not paths:
        raise ValueError("there are no image files to read")
    first = to_tensor(decode(paths[0], mode))
    images = torch.empty(len(paths), *first.shape, dtype=torch.uint8)

    def fill(number: int) -> None:
        image = to_tensor(decode(paths[number], mode))
        if image.shape != first.shape:
            raise ValueError(
                f"{paths[number]} is {tuple(image.shape)}, but {paths[0]} is {tuple(first.shape)}: "
                "bring the images to one size, or stream them with FolderLoader"
            )
        images[number] = image

    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(fill, range(len(paths))):
            pass
    return images
