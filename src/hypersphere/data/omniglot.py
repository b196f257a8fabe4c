"""Omniglot (Lake et al. 2015): 964 training and 659 test characters, 20 drawings of 105×105 each.

Two layouts are read: the official folders ``images_background/`` and ``images_evaluation/`` of PNG files, and one NumPy
file that holds the same bits packed. Pixels are the published ones: ink 0 on paper 255. The characters of the two
splits differ, so each split counts its own classes from 0.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ._download import Remote
from ._store import Layout, Store
from .images import decode_all
from .types import Dataset, Split

SIDE = 105
PARTS = ("images_background", "images_evaluation")
PACKED = "omniglot_105_packbits.npz"
MD5_PACKED = "f1709734920f22cac85edfbf7058a591"  # of the packed file, which is this project's own
_SITE = "https://raw.githubusercontent.com/brendenlake/omniglot/master/python"
OMNIGLOT = (
    Layout(
        ("omniglot", "omniglot-py"),
        tuple((part,) for part in PARTS),
        (
            Remote(f"{_SITE}/images_background.zip", "omniglot", "68d2efa1b9178cc56df9314c21c6e718", unpack=True),
            Remote(f"{_SITE}/images_evaluation.zip", "omniglot", "6b91aef0f799c5bb55b94e3f2daec811", unpack=True),
        ),
    ),
    Layout(("omniglot",), ((PACKED,),)),
)


def omniglot(store: Store) -> Dataset:
    """Read whichever layout is there."""
    layout, folder = store.locate(*OMNIGLOT)
    train, test = _packed(store, folder / PACKED) if layout == 1 else tuple(_folder(folder / part) for part in PARTS)
    return Dataset(store.name, train, test)


def _folder(folder: Path) -> Split:
    characters = sorted(path for path in folder.glob("*/*") if path.is_dir())
    drawings = [(path, label) for label, character in enumerate(characters) for path in sorted(character.glob("*.png"))]
    images = decode_all([path for path, _ in drawings], mode="L")
    labels = torch.tensor([label for _, label in drawings])
    drawer = torch.tensor([int(path.stem.rsplit("_", 1)[-1]) for path, _ in drawings])
    names = tuple(f"{character.parent.name}/{character.name}" for character in characters)
    return Split(images, labels, names, {"drawer": drawer})


def _packed(store: Store, path: Path) -> tuple[Split, Split]:
    import numpy as np

    data = store.read(path, MD5_PACKED)
    with np.load(io.BytesIO(data), allow_pickle=False) as fields:
        bits, label, drawer, chars, part = (fields[name] for name in ("bits", "label", "drawer", "chars", "split"))
    if not len(label) or not len(bits) == len(label) == len(drawer):
        sizes = f"{len(bits)} drawings, {len(label)} labels and {len(drawer)} drawers"
        raise ValueError(f"{path} holds {sizes}: one of each is needed for a drawing")
    splits = []
    for number in range(len(PARTS)):
        rows = np.flatnonzero(part[label] == number)
        members = np.flatnonzero(part == number)
        images = _unpack(np.unpackbits(bits[rows], axis=1, count=SIDE * SIDE))
        labels = torch.from_numpy(np.searchsorted(members, label[rows])).long()
        names = tuple(str(name).split("/", 1)[1] for name in chars[members])
        splits.append(Split(images, labels, names, {"drawer": torch.from_numpy(drawer[rows]).long()}))
    return splits[0], splits[1]


def _unpack(ink: Any) -> Tensor:
    """Ink bits to pixels: 1 → 0, 0 → 255."""
    return (torch.from_numpy(ink).view(-1, 1, SIDE, SIDE) - 1).contiguous()
