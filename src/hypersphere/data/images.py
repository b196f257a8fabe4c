"""Image files to uint8 tensors, with Pillow."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .._core.modes import on_host

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp"})
FORMATS = ("JPEG", "PNG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
"""The decoders that may read a file, whatever its name says: none of them starts another program."""
_WIDE_MODE = ("PNG", "PPM")
"""Formats of at most 16 bits, which Pillow may give in its mode of 32."""
MAX_PIXELS = 1 << 27
"""Larger images raise an error before their pixels are decoded: a small file can declare a huge one."""


def decode(path: Path, mode: str = "RGB") -> Image:
    """The decoded picture in ``mode``, turned as its EXIF data say.

    Raises:
        ValueError: If the file cannot be decoded, is of another format than the usual ones, or has more than
            :data:`MAX_PIXELS` pixels. The message names the file.
    """
    from PIL import ImageOps

    with _opened(path) as image:
        try:
            return _eight_bits(ImageOps.exif_transpose(image)).convert(mode)
        except (OSError, SyntaxError, ValueError, ArithmeticError, EOFError) as error:
            raise ValueError(f"{path} cannot be decoded as an image: {error}") from error


def is_cut_off(path: Path) -> bool:
    """Whether a JPEG or PNG file lacks its end, and cannot be decoded: found without decoding those that have it."""
    with open(path, "rb") as file:
        start = file.read(4)
        file.seek(-min(64, file.seek(0, 2)), 2)
        end = file.read()
    mark = {b"\xff\xd8": b"\xff\xd9", b"\x89P": b"IEND"}.get(start[:2], b"")
    if mark in end:
        return False
    try:
        decode(path)  # something else may follow the end, as in photos that move
    except ValueError:
        return True
    return False


def image_size(path: Path) -> tuple[int, int]:
    """Height and width as the file declares them, without decoding it; errors as in :func:`decode`."""
    from PIL import Image

    with _opened(path) as image:
        tags = Image.Exif()  # not getexif(), which decodes a PNG
        try:
            tags.load(image.info.get("exif", b""))
        except (SyntaxError, ValueError, OSError, struct.error):
            tags.clear()
        turned = tags.get(0x0112, 1) in (5, 6, 7, 8)
        return (image.width, image.height) if turned else (image.height, image.width)


def _eight_bits(image: Image) -> Image:
    """Grey values of 16 bits as 8 bits: Pillow's own conversion would make all above 255 white."""
    if not image.mode.startswith("I"):
        return image
    return image.convert("I").point(lambda value: value * (1 / 257))


def fit(image: Image, height: int, width: int) -> Image:
    """The picture scaled (bilinear, antialiased) until it covers height × width, and its middle cut out."""
    scale = max(height / image.height, width / image.width)
    tall, wide = max(round(image.height * scale), height), max(round(image.width * scale), width)
    if (image.height, image.width) != (tall, wide):
        image = image.resize((wide, tall), 2)  # 2: bilinear
    top, left = (tall - height) // 2, (wide - width) // 2
    return image.crop((left, top, left + width, top + height))


def window(image: Image, resize: int, top: int, left: int, height: int, width: int) -> Image:
    """The picture squeezed to ``resize`` × ``resize`` (bilinear), and a part of it."""
    return image.resize((resize, resize), 2).crop((left, top, left + width, top + height))


@contextmanager
def _opened(path: Path) -> Iterator[Image]:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("image files are decoded with Pillow: pip install 'hypersphere[train]'") from error
    try:
        image = Image.open(path, formats=FORMATS)
    except FileNotFoundError:
        raise
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path} cannot be decoded as an image: {error}") from error
    with image:
        if image.width * image.height > MAX_PIXELS:
            raise ValueError(
                f"{path} declares {image.width}×{image.height} pixels, more than {MAX_PIXELS:,}: scale it down first"
            )
        if image.mode == "F":
            raise ValueError(f"{path} has floating-point pixels, whose range is not known: save it with 8 or 16 bits")
        if image.mode == "I" and image.format not in _WIDE_MODE:
            raise ValueError(
                f"{path} has pixels of 32 bits or with a sign, whose range is not known: save it with 8 or 16 bits"
            )
        yield image


def to_tensor(image: Image) -> Tensor:
    """A ``(C, H, W)`` uint8 copy of the pixels."""
    channels = len(image.getbands())
    flat = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return flat.view(image.height, image.width, channels).permute(2, 0, 1).contiguous()


@on_host()
def decode_all(
    paths: Sequence[Path],
    mode: str = "RGB",
    threads: int = 8,
    size: tuple[int, int] | None = None,
    resize: int | None = None,
) -> Tensor:
    """All pictures as one ``(N, C, H, W)`` uint8 tensor: of one size, or brought to ``size``.

    That is done by :func:`fit`, or with ``resize`` by the middle :func:`window`, as :class:`FolderLoader` does it.
    """
    if not paths:
        raise ValueError("there are no image files to read")

    def read(path: Path) -> Tensor:
        image = decode(path, mode)
        if size is None:
            return to_tensor(image)
        if resize is None:
            return to_tensor(fit(image, *size))
        return to_tensor(window(image, resize, (resize - size[0]) // 2, (resize - size[1]) // 2, *size))

    first = read(paths[0])
    images = torch.empty(len(paths), *first.shape, dtype=torch.uint8)

    def fill(number: int) -> None:
        image = read(paths[number])
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
