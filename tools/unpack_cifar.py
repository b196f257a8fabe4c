"""Rebuild the official CIFAR files, byte for byte, from lossless image mosaics and their labels.

    python tools/unpack_cifar.py FOLDER... --root DIR

The folders together hold ``meta.json.xz`` and mosaics of 10,000 images, 100 to a row, in original order:
``data_batch_1.webp`` ... ``test_batch.webp`` for CIFAR-10, ``train_1.webp`` ... ``test_1.webp`` for CIFAR-100. The
files land in ``DIR/cifar-10-batches-py`` or ``DIR/cifar-100-python``, where ``hypersphere.data`` reads them; their
checksums are those of the published ones. Needs NumPy and Pillow.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from hypersphere.data.cifar import TEST10, TEST100, TRAIN10, TRAIN100

MD5 = {**TRAIN10, **TEST10, **TRAIN100, **TEST100}
ORDER = {10: ("batch_label", "labels", "data", "filenames"),
         100: ("filenames", "batch_label", "fine_labels", "coarse_labels", "data")}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--root", type=Path, required=True)
    options = parser.parse_args()
    labels = json.loads(lzma.decompress(_find(options.folders, "meta.json.xz").read_bytes()))
    ten = "test_batch" in labels
    out = options.root / ("cifar-10-batches-py" if ten else "cifar-100-python")
    out.mkdir(parents=True, exist_ok=True)
    for name in (*TRAIN10, *TEST10) if ten else ("train", "test"):
        mosaics = [name] if ten else [f"{name}_{i}" for i in range(1, 6 if name == "train" else 2)]
        pixels = np.concatenate([read_mosaic(_find(options.folders, f"{mosaic}.webp")) for mosaic in mosaics])
        fields = [(key, pixels if key == "data" else labels[name][key]) for key in ORDER[10 if ten else 100]]
        content = batch_file(fields)
        if hashlib.md5(content).hexdigest() != MD5[name]:
            raise SystemExit(f"{name}: the checksum differs from the published file's")
        (out / name).write_bytes(content)
        print(f"{out / name} ready", flush=True)


def read_mosaic(path: Path) -> np.ndarray:
    """(10000, 3072) bytes, channels first, from a 3200×3200 mosaic."""
    Image.MAX_IMAGE_PIXELS = None
    with Image.open(path) as image:
        tiles = np.asarray(image.convert("RGB")).reshape(100, 32, 100, 32, 3)
    return np.ascontiguousarray(tiles.transpose(0, 2, 4, 1, 3)).reshape(10000, 3072)


def batch_file(fields: Sequence[tuple[str, Any]]) -> bytes:
    """A pickle of protocol 2 with these fields, as Python 2's cPickle wrote it: every object gets the next memo."""
    out, memo = bytearray(b"\x80\x02"), 0

    def remember() -> None:
        nonlocal memo
        memo += 1
        out.extend(b"q" + bytes([memo]) if memo < 256 else b"r" + struct.pack("<I", memo))

    def text(value: str) -> None:
        raw = value.encode("latin1")
        out.extend(b"U" + bytes([len(raw)]) + raw)
        remember()

    def number(value: int) -> None:
        out.extend(b"K" + bytes([value]) if value < 256 else b"M" + struct.pack("<H", value))

    def name(path: bytes) -> None:
        out.extend(b"c" + path)
        remember()

    def sequence(values: Sequence[Any]) -> None:
        out.extend(b"]")
        remember()
        for start in range(0, len(values), 1000):
            out.extend(b"(")
            for value in values[start : start + 1000]:
                text(value) if isinstance(value, str) else number(value)
            out.extend(b"e")

    def array(value: np.ndarray) -> None:
        name(b"numpy.core.multiarray\n_reconstruct\n")
        name(b"numpy\nndarray\n")
        out.extend(b"K\x00\x85U\x01b\x87R")  # _reconstruct(ndarray, (0,), 'b')
        remember()
        out.extend(b"(K\x01")
        for size in value.shape:
            number(size)
        out.extend(b"\x86")
        name(b"numpy\ndtype\n")
        out.extend(b"U\x02u1K\x00K\x01\x87R")  # dtype('u1', 0, 1)
        remember()
        out.extend(b"(K\x03U\x01|NNN" + (b"J" + struct.pack("<i", -1)) * 2 + b"K\x00tb")
        out.extend(b"\x89T" + struct.pack("<I", value.size) + value.tobytes() + b"tb")

    out.extend(b"}")
    remember()
    out.extend(b"(")
    for key, value in fields:
        text(key)
        write = array if isinstance(value, np.ndarray) else text if isinstance(value, str) else sequence
        write(value)
    out.extend(b"u.")
    return bytes(out)


def _find(folders: Sequence[Path], name: str) -> Path:
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    raise SystemExit(f"{name} is in none of {', '.join(map(str, folders))}")


if __name__ == "__main__":
    main()
