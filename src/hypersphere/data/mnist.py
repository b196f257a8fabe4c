"""MNIST (LeCun et al. 1998) and Fashion-MNIST (Xiao et al. 2017): 60,000 + 10,000 images of 28×28, idx files."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ._download import Remote
from ._store import Layout, Store
from .types import Dataset, Split

FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
# MD5 of the decompressed files, the same for a plain and a gzipped copy.
MD5_MNIST = (
    "6bbc9ace898e44ae57da46a324031adb",
    "a25bea736e30d166cdddb491f175f624",
    "2646ac647ad5339dbf082846283269ea",
    "27ae3e4e09519cfbb04c329615203637",
)
MD5_FASHION = (
    "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "9018921c3c673c538a1fc5bad174d6f9",
    "8181f5470baa50b63fa0f6fddb340f0a",
    "15d484375f8d13e6eb1aabb0c3f46965",
)
# MD5 of the published .gz files.
GZ_MNIST = (
    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "d53e105ee54ea40749a09fcbcd1e9432",
    "9fb629c4189551a2d022fa330f9573f3",
    "ec29112dd5afa0611ce80d1b7f02629c",
)
GZ_FASHION = (
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "25c81989df183df01b3e8a0aad5dffbe",
    "bef4ecab320f06d8554ea6380940ec79",
    "bb300cfdad3c16e7a12a480ee83cd310",
)


def _layout(folders: tuple[str, ...], site: str, checksums: tuple[str, ...]) -> Layout:
    remotes = (
        Remote(f"{site}/{name}.gz", f"{folders[0]}/{name}.gz", md5) for name, md5 in zip(FILES, checksums, strict=True)
    )
    return Layout(folders, tuple((name, name + ".gz") for name in FILES), tuple(remotes))


MNIST = _layout(("MNIST/raw", "mnist"), "https://ossci-datasets.s3.amazonaws.com/mnist", GZ_MNIST)
FASHION_MNIST = _layout(
    ("FashionMNIST/raw", "fashion_mnist"), "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com", GZ_FASHION
)
DIGITS = tuple("0123456789")
CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


def mnist(store: Store) -> Dataset:
    """Read ``MNIST/raw/``."""
    return _read(store, MNIST, MD5_MNIST, DIGITS)


def fashion_mnist(store: Store) -> Dataset:
    """Read ``FashionMNIST/raw/``."""
    return _read(store, FASHION_MNIST, MD5_FASHION, CLOTHES)


def idx(data: bytes, where: str) -> Tensor:
    """The tensor in an idx file: two zero bytes, type 8 (uint8), rank, big-endian sizes, values."""
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise ValueError(f"{where} does not start like an idx file of bytes: {data[:4]!r}")
    rank = data[3]
    shape = struct.unpack_from(f">{rank}I", data, 4) if len(data) >= 4 + 4 * rank else ()
    if not shape or len(data) != 4 + 4 * rank + math.prod(shape):
        raise ValueError(f"{where} has {len(data)} bytes, which does not fit its header {shape}: it is cut short")
    return torch.frombuffer(bytearray(data), dtype=torch.uint8, offset=4 + 4 * rank).view(shape)


def _read(store: Store, layout: Layout, checksums: tuple[str, ...], classes: tuple[str, ...]) -> Dataset:
    _, folder = store.locate(layout)
    paths = [(folder / name, md5) for name, md5 in zip(FILES, checksums, strict=True)]
    train = _split(store, paths[:2], classes)
    test = _split(store, paths[2:], classes)
    if test.images.shape[1:] != train.images.shape[1:]:
        shapes = [tuple(split.images.shape[2:]) for split in (test, train)]
        raise ValueError(f"{paths[2][0]} has images of {shapes[0]} pixels, and {paths[0][0].name} has {shapes[1]}")
    return Dataset(store.name, train, test)


def _split(store: Store, paths: Sequence[tuple[Path, str]], classes: tuple[str, ...]) -> Split:
    """The images of one file with the labels of another; an error names the one that is wrong."""
    images, labels = (idx(store.read(path, md5), str(path)) for path, md5 in paths)
    for (path, _), found, rank in zip(paths, (images, labels), (3, 1), strict=True):
        if found.ndim != rank:
            raise ValueError(f"{path} has values of shape {tuple(found.shape)}: {rank} sizes are needed")
    if len(images) != len(labels):
        raise ValueError(f"{paths[1][0]} has {len(labels)} labels, and {paths[0][0].name} has {len(images)} images")
    return Split(images.unsqueeze(1), labels.long(), classes)
