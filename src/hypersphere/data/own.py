"""One's own images: a folder of classes, a tree that is split already, or a table of paths and labels.

The split is a function of the seed and of the names alone, so that it is the same on every machine and files that are
added later do not move the others. It can be written down as a table, which is read again as a data set.
"""

from __future__ import annotations

import hashlib
import logging
import os
import unicodedata
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import torch

from .._core.checks import check_choice
from ._store import Store
from .folder import ImageFolder, ImageTree
from .images import decode, decode_all, image_size, is_cut_off
from .listing import count_not_read, list_images
from .table import SPLITS, UNSPLIT, Picture
from .types import Dataset, Split

logger = logging.getLogger("hypersphere")
_HELD_OUT = 0.2


@dataclass(frozen=True, eq=False, repr=False)  # a list of all pictures is nothing to read
class OwnImages(ImageTree):
    """Your own images, split into training and test, with what was noticed while reading them.

    Attributes:
        name: Name of the data set, as in :func:`hypersphere.data.load`.
        train: The images to train on.
        test: The images to evaluate on; their classes may differ from those of training.
        pictures: Every image of the set with its class and split.
        unreadable: What is wrong with each file that was left out, by path.
        unseen: Whether the test classes differ from those of training.
        smallest: Height and width of the image with the shortest side; None where the files were not opened.
        split_here: Whether the library made the split, not the user's folders or table.
        not_read: Number of files that look like images but are not read, by their kind.

    Example:
        >>> photos = hs.data.load("folder", "photos")
        >>> photos.num_classes, len(photos.pictures)
        (2, 12)
    """

    pictures: tuple[Picture, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
    unseen: bool = False
    smallest: tuple[int, int] | None = None
    split_here: bool = False
    not_read: Mapping[str, int] = field(default_factory=dict)

    def resident(self, size: int | tuple[int, int]) -> Dataset:
        """Decode all images into memory at one size; images are scaled to cover it and cropped at the centre.

        Args:
            size: height and width, a number or both.

        Returns:
            The data set with its images as tensors in memory.
        """
        shape = (size, size) if isinstance(size, int) else size
        return Dataset(self.name, _resident(self.train, shape), _resident(self.test, shape))

    def summary(self, size: int | None = None) -> str:
        """Describe what was found, in one or two sentences.

        Args:
            size: The side of the images that the network takes; those that must be enlarged to it are mentioned.

        Returns:
            One or two sentences on the images, classes and splits found.
        """
        counts = [torch.bincount(part.labels, minlength=len(part.classes)) for part in (self.train, self.test)]
        kind = "unseen classes" if self.unseen else "the same classes"
        text = (
            f"{self.name}: {len(self.train):,} images of {len(self.train.classes):,} classes to train on, "
            f"{len(self.test):,} of {kind} ({int((counts[1] > 0).sum()):,}) to test on"
        )
        single = int((counts[0] == 1).sum())
        if single:
            text += f"; {single:,} {'class has' if single == 1 else 'classes have'} a single training image"
        if size is not None and self.smallest is not None and min(self.smallest) < size:
            height, width = self.smallest
            text += f"; images are enlarged to {size}×{size} pixels, the smallest of them from {height}×{width}"
        for kind, count in self.not_read.items():
            text += f"; not read: {count:,} {kind}"
        if self.unreadable:
            first = next(iter(self.unreadable))
            count = len(self.unreadable)
            words = "file cannot be read and is" if count == 1 else "files cannot be read and are"
            text += f"; {count:,} {words} left out, the first is {first}"
        return text

    def bytes_at(self, size: int) -> int:
        """Compute the memory that :meth:`resident` would take.

        Args:
            size: height and width of the images.

        Returns:
            The number of bytes of all images at that size.
        """
        return 3 * size * size * (len(self.train) + len(self.test))


def own_images(
    store: Store,
    *,
    split: str = "image",
    held_out: float = _HELD_OUT,
    test: str = "test",
    table: str | None = None,
    unreadable: str = "skip",
    check: str = "header",
    split_seed: int = 0,
) -> OwnImages:
    """Read the images in the folder ``root``.

    Args:
        store: The folder: ``root/train|val|test/<class>/*``, or ``root/<class>/*`` to be split here.
        split: How a folder without splits is split: by ``"image"`` (each class is in both parts: classification) or by
            ``"class"`` (the test classes are never trained on: verification, retrieval, few shots).
        held_out: The share of the images of each class, or of the classes, that is held out for testing.
        test: The part to test on, ``"test"`` or ``"val"``; if it is missing, the other one is used.
        table: A CSV file with the columns ``path`` and ``label`` (and ``split``), paths relative to ``root``.
        unreadable: ``"skip"`` leaves files out that cannot be read and lists them; ``"refuse"`` raises an error.
        check: ``"header"`` opens every file and looks whether it was cut off, ``"full"`` decodes it, ``"none"``
            checks nothing.
        split_seed: Seed of the split; another number gives another split.

    Returns:
        The training and the test part, as folders whose classes are counted from 0.

    Raises:
        FileNotFoundError: If there is no folder, no table, no image in it, or none of those that it lists.
        ValueError: If a part is empty, the table lacks a column, or a file cannot be read and is not to be skipped.
    """
    check_choice("split", split, ("image", "class"))
    check_choice("unreadable", unreadable, ("skip", "refuse"))
    check_choice("check", check, ("header", "full", "none"))
    if not 0 < held_out < 1:
        raise ValueError(f"held_out={held_out!r} must lie between 0 and 1: it is the share kept for testing")
    pictures = list_images(store.root, table)
    bad, smallest = _opened(store.root, pictures, check)
    if bad and unreadable == "refuse":
        path, why = next(iter(bad.items()))
        raise ValueError(
            f"{len(bad)} of {len(pictures)} images cannot be read; the first is {path}: {why}; remove them, "
            "or leave them out with unreadable='skip' (--data.unreadable skip)"
        )
    listed, pictures = pictures, [picture for picture in pictures if picture.path not in bad]
    if listed and not pictures:
        path, why = next(iter(bad.items()))
        hint = "" if store.root.is_dir() else ". Name their folder with root= (--data.root to train, --root afterwards)"
        kind = ValueError if any((store.root / path).exists() for path in bad) else FileNotFoundError
        raise kind(f"none of the {len(bad)} images of {store.root} can be read; the first is {path}: {why}{hint}")
    split_here = any(picture.split == UNSPLIT for picture in pictures)
    if split_here:
        pictures = _split(store.root, pictures, split, held_out, split_seed)
    elif (held_out, split_seed) != (_HELD_OUT, 0):
        says = "the folders say" if table is None else "the table says"
        logger.warning("%s what is trained and tested on: held_out and split_seed change nothing", says)
    parts = {name: [p for p in pictures if p.split == name] for name in SPLITS}
    chosen = test if parts[test] else "val" if test == "test" else "test"
    for name, part in (("train", "train"), (test, chosen)):
        if not parts[part]:
            raise ValueError(
                f"{store.root} has no images in {name!r}: the set needs a part to train on and one to test"
            )
    unseen = not {p.label for p in parts["train"]} & {p.label for p in parts[chosen]}
    train = _folder(store.root, parts["train"])
    if len(train.classes) < 2:
        raise ValueError(
            f"{store.root} has one class to train on, {train.classes[0]!r}: there must be two or more, in folders of "
            "their own" + ("; hold out fewer with held_out= (--data.held-out)" if unseen else "")
        )
    tested = _folder(store.root, parts[chosen], None if unseen else train.classes)
    name = Path(os.path.abspath(store.root)).name if store.name == "folder" else store.name
    not_read = count_not_read(store.root) if table is None else {}
    return OwnImages(name, train, tested, tuple(pictures), bad, unseen, smallest, split_here, not_read)


def _opened(root: Path, pictures: list[Picture], check: str) -> tuple[dict[str, str], tuple[int, int] | None]:
    """What is wrong with each file that cannot be read, and the size of the image with the shortest side."""
    if check == "none":
        return {}, None

    def look(picture: Picture) -> str | tuple[int, int]:
        try:
            if check == "full":
                decode(root / picture.path)
            elif is_cut_off(root / picture.path):
                return "the file was cut off: its end is missing"
            return image_size(root / picture.path)
        except (ValueError, OSError) as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(look, pictures))
    bad = {p.path: why for p, why in zip(pictures, found, strict=True) if isinstance(why, str)}
    sizes = [size for size in found if not isinstance(size, str)]
    return bad, min(sizes, key=min, default=None)


def _split(root: Path, pictures: list[Picture], by: str, held_out: float, seed: int) -> list[Picture]:
    """Train and test, by the order of a hash of seed and name: stable when others come and go.

    A file that is listed twice, also by a link or an absolute path, is in one part.
    """
    first: dict[object, str] = {}  # the name by which each file is split
    named = {p.path: first.setdefault(_identity(root / p.path), p.path) for p in pictures}
    members: dict[str, Counter[str]] = {}  # how often each file is listed
    for picture in pictures:
        members.setdefault(picture.label, Counter())[named[picture.path]] += 1
    if by == "class":
        ranked = sorted(members, key=lambda label: _hash(seed, label))
        if len(ranked) == 1:
            raise ValueError("one class cannot be split by class: two or more are trained on, and others tested")
        unseen = set(ranked[: min(max(1, round(held_out * len(ranked))), len(ranked) - 1)])
        return [Picture(p.path, p.label, "test" if p.label in unseen else "train") for p in pictures]
    tested: set[str] = set()
    for paths in members.values():
        left = round(held_out * paths.total())
        for path in sorted(paths, key=lambda path: _hash(seed, path))[:-1]:  # one is left to train on
            if left > 0:
                tested.add(path)
                left -= paths[path]
    if not tested:
        most = max(map(len, members.values()))
        if most == 1:
            raise ValueError("each class has one image, of which none can be held out: add images, or split by class")
        raise ValueError(
            f"held_out={held_out} of at most {most} images per class is less than one image: raise it (--data.held-out)"
        )
    return [Picture(p.path, p.label, "test" if named[p.path] in tested else "train") for p in pictures]


def _identity(file: Path) -> object:
    """What all names of a file have in common."""
    try:
        found = os.stat(file)
    except OSError:
        return file
    return (found.st_dev, found.st_ino) if found.st_ino else file


def _hash(seed: int, name: str) -> bytes:
    """Of the name in one normal form: macOS gives ``ü`` back as two characters."""
    return hashlib.blake2b(unicodedata.normalize("NFC", f"{seed}:{name}").encode(), digest_size=8).digest()


def _folder(root: Path, pictures: list[Picture], classes: tuple[str, ...] | None = None) -> ImageFolder:
    names = tuple(sorted({p.label for p in pictures})) if classes is None else classes
    numbers = {name: number for number, name in enumerate(names)}
    if strange := sorted({p.label for p in pictures} - set(names)):
        raise ValueError(
            f"the test part has the class {strange[0]!r}, which training lacks, beside classes that it has: "
            "make the two parts share all of their classes, or none"
        )
    files = tuple(str(root / p.path) for p in pictures)
    return ImageFolder(root, files, torch.tensor([numbers[p.label] for p in pictures]), names)


def _resident(folder: ImageFolder, shape: tuple[int, int]) -> Split:
    return Split(decode_all([Path(file) for file in folder.files], size=shape), folder.labels, folder.classes)
