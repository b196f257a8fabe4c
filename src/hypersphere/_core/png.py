"""PNG files, written with nothing but zlib."""

from __future__ import annotations

import struct
import zlib

import torch
from torch import Tensor

_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def png(image: Tensor) -> bytes:
    """A uint8 image ``(1 or 3, H, W)`` as PNG; every row is stored as the difference to the one above."""
    if image.dtype != torch.uint8 or image.dim() != 3 or image.shape[0] not in (1, 3) or not image.numel():
        raise ValueError(f"image is {image.dtype} {tuple(image.shape)}: pass uint8 (1 or 3, H, W)")
    channels, height, width = image.shape
    rows = image.permute(1, 2, 0).reshape(height, width * channels)
    above = torch.cat([torch.zeros_like(rows[:1]), rows[:-1]])
    lines = torch.cat([torch.full((height, 1), 2, dtype=torch.uint8), rows - above], 1)  # bytes wrap around
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if channels == 1 else 2, 0, 0, 0)
    body = zlib.compress(bytes(lines.contiguous().flatten().tolist()), 9)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
