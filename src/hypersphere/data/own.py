"""One's own images: a folder of classes, a tree that is split already, or a table of paths and labels.

The split is a function of the seed and of the names alone, so that it is the same on every machine and files that are
added later do not move the others. It can be written down as a table, which is read again as a data set.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from .._core.checks import check_choice
from ._store import Store
from .folder import ImageFolder, ImageTree
from .images import SUFFIXES, decode, decode_all, image_size, is_cut_off
from .types import Dataset, Split

SPLITS = ("train", "val", "test")
_WORDS = {"training": "train", "valid": "val", "validation": "val", "testing": "test"} | {one: one for one in SPLITS}
_HIDDEN = (".", "__MACOSX")
"""How names begin that programs make beside the images: ``.ipynb_checkpoints``, ``._1.jpg``."""
_UNSPLIT = ""
_OTHER_FORMATS = (".heic", ".heif", ".avif", ".jxl", ".jfif", ".jp2", ".dng", ".nef", ".cr2", ".psd", ".tga", ".svg")


@dataclass(frozen=True)
class Picture:
    """One file, relative to the folder of the set; its class; and the part of the set that it belongs to, if any."""

    path: str
    label: str
    split: str = _UNSPLIT


@dataclass(frozen=True, eq=False)
class OwnImages(ImageTree):
    """Your own images, split into training and test, with what was found on the way.

    Attributes:
        name: Name of the data set, as in :func:`hypersphere.data.load`.
        train: The images to train on.
        test: The images to evaluate on; their classes may differ from those of training.
        pictures: Every image of the set with its class and split.
        unreadable: What is wrong with each file that was left out, by path.
        unseen: Whether the test classes are others than those of training.
        smallest: Height and width of the image with the shortest side; None where the files were not opened.
        split_here: Whether the split was made here, not by the user's folders or table.
        not_read: How many files look like images and are not read, by what they are.

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
        """Decode all images into memory at one size (scaled to cover it, the middle cut out).

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
        if self.unreadable:
            first = next(iter(self.unreadable))
            count = len(self.unreadable)
            words = "file cannot be read and is" if count == 1 else "files cannot be read and are"
            text += f"; {count:,} {words} left out, the first is {first}"
        for kind, count in self.not_read.items():
            text += f"; not read: {count:,} {kind}"
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
    held_out: float = 0.2,
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
        test: The part to test on, ``"test"`` or ``"val"``; the other one serves where there is none of that name.
        table: A CSV file with the columns ``path`` and ``label`` (and ``split``), paths relative to ``root``.
        unreadable: ``"skip"`` leaves files out that cannot be read and lists them; ``"refuse"`` raises an error.
        check: ``"header"`` opens every file and looks whether it was cut off, ``"full"`` decodes it, ``"none"``
            believes the names.
        split_seed: Another number gives another split.

    Returns:
        The training and the test part, as folders whose classes are counted from 0.

    Raises:
        FileNotFoundError: If there is no folder, no table, or no image in it.
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
        raise ValueError(f"none of the {len(bad)} images of {store.root} can be read; the first is {path}: {why}{hint}")
    split_here = any(picture.split == _UNSPLIT for picture in pictures)
    if split_here:
        pictures = _split(store.root, pictures, split, held_out, split_seed)
    parts = {name: [p for p in pictures if p.split == name] for name in SPLITS}
    chosen = test if parts[test] else "val" if test == "test" else "test"
    for name in ("train", chosen):
        if not parts[name]:
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
    not_read = _not_read(store.root) if table is None else {}
    return OwnImages(name, train, tested, tuple(pictures), bad, unseen, smallest, split_here, not_read)


def list_images(root: Path, table: str | None = None) -> list[Picture]:
    """List every image of a table, of a tree of splits, or of a folder of classes, in the order of their paths.

    Args:
        root: folder with one subfolder of images per class, or with ``train`` and ``test`` above them.
        table: name of a file with columns path, label and split in it; None reads the folders.

    Returns:
        Path, class and split of each image.

    Raises:
        FileNotFoundError: If ``root`` is not a folder, or has no images in class folders.

    Example:
        >>> from pathlib import Path
        >>> hs.data.list_images(Path("photos"))[0]
        Picture(path='train/cat/0.png', label='cat', split='train')
    """
    if table is not None:
        return _from_table(root, Path(table))
    if not root.is_dir():
        raise FileNotFoundError(
            f"{root} is not a folder: name the one that holds your images with root= (--data.root to train, --root "
            "afterwards), and a CSV file of paths and labels with table= (--data.table)"
        )
    inside = _folders(root)
    place = root
    while len(inside) == 1 and _folders(place / inside[0]) and not _images(os.listdir(place / inside[0])):
        place /= inside[0]  # what an archive was unpacked to, or a folder "train" alone
        inside = _folders(place)
    words = [(_WORDS[name.lower()], name) for name in inside if name.lower() in _WORDS]
    parts = [(split, name) for split, name in words if _folders(place / name)]
    if {"train"} < {split for split, _ in parts}:
        parts.sort(key=lambda part: SPLITS.index(part[0]))
        return [p for split, name in parts for p in _from_classes(root, place / name, split)]
    no_classes = {"train"} < {split for split, _ in words} and len(words) == len(inside)
    pictures = [] if no_classes else _from_classes(root, place, _UNSPLIT)
    if not pictures:
        raise FileNotFoundError(
            f"data set 'folder': {root} has no images in class folders: expected {root}/<class>/<image>.jpg, or "
            f"{root}/train/<class>/... and {root}/test/<class>/...; name the folder with root=... or $HYPERSPHERE_DATA"
        )
    return pictures


def write_table(file: Path, pictures: Iterable[Picture]) -> None:
    """Write a split to a file with columns ``path,label,split``, which ``table=`` of :func:`load` reads.

    Args:
        file: path of the CSV file to write.
        pictures: path, class and split of each image.

    Example:
        >>> from pathlib import Path
        >>> hs.data.write_table(Path("split.csv"), hs.data.list_images(Path("photos")))
        >>> Path("split.csv").read_text().splitlines()[0]
        'path,label,split'
    """
    with open(file, "w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(("path", "label", "split"))
        writer.writerows((p.path, p.label, p.split) for p in pictures)


def _folders(place: Path) -> list[str]:
    return sorted(entry.name for entry in os.scandir(place) if entry.is_dir() and not entry.name.startswith(_HIDDEN))


def _images(names: Iterable[str]) -> list[str]:
    return sorted(n for n in names if os.path.splitext(n)[1].lower() in SUFFIXES and not n.startswith(_HIDDEN))


def _from_classes(root: Path, folder: Path, split: str) -> list[Picture]:
    found = []
    for name in _folders(folder):
        for place, _, members in sorted(os.walk(folder / name)):
            if not any(part.startswith(_HIDDEN) for part in Path(place).relative_to(folder).parts):
                paths = (Path(place, member).relative_to(root).as_posix() for member in _images(members))
                found += [Picture(path, name, split) for path in paths]
    return found


def _not_read(root: Path) -> dict[str, int]:
    """Files that the user may take for images of the set: other formats, and images beside the class folders."""
    loose = len(_images(entry.name for entry in os.scandir(root) if entry.is_file()))
    found = {f"images in {root.name or root} itself, in no class folder": loose} if loose else {}
    ends = Counter(os.path.splitext(name)[1].lower() for _, _, members in os.walk(root) for name in members)
    return found | {f"{end} (save as JPEG or PNG)": ends[end] for end in _OTHER_FORMATS if ends[end]}


def _from_table(root: Path, table: Path) -> list[Picture]:
    """The rows of a table: columns between commas, semicolons or tabs, paths relative to ``root`` or to the table."""
    file = table if table.is_absolute() or table.exists() else root / table
    if not file.exists():
        raise FileNotFoundError(f"table={str(table)!r} is neither here nor in {root}")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not in UTF-8: save it as `CSV UTF-8` ({error})") from error
    first = text.partition("\n")[0]
    rows = csv.reader(io.StringIO(text), delimiter=max(",;\t", key=first.count), skipinitialspace=True)
    columns = [word.strip().lower() for word in next(rows, [])]
    if not {"path", "label"} <= set(columns):
        raise ValueError(f"{file} needs a first line with the columns path,label (and split, if it is to name one)")
    known: dict[str, Picture] = {}
    pictures = []  # an image that is listed twice counts twice
    for row in filter(any, rows):
        values = {name: word.strip() for name, word in zip(columns, row, strict=False)}
        path, label, split = (values.get(name, "") for name in ("path", "label", "split"))
        path = path and Path(os.path.normpath(path)).as_posix()  # one spelling: ./a.jpg is a.jpg
        if not path or not label:
            raise ValueError(f"{file}, line {rows.line_num}: a row needs a path and a label")
        if split.lower() not in (*_WORDS, _UNSPLIT):
            raise ValueError(f"{file}, line {rows.line_num}: split={split!r} must be train, val or test")
        picture = Picture(path, label, _WORDS.get(split.lower(), _UNSPLIT))
        if known.setdefault(path, picture) != picture:
            raise ValueError(f"{file}, line {rows.line_num}: {path} is listed before with another label or split")
        pictures.append(picture)
    if not pictures:
        raise ValueError(f"{file} names no images")
    unnamed = sum(picture.split == _UNSPLIT for picture in pictures)
    if 0 < unnamed < len(pictures):
        raise ValueError(f"{file} names a split for some images and none for {unnamed}: name all or none")
    if not (root / pictures[0].path).exists() and (file.parent / pictures[0].path).exists():
        paths = (os.path.relpath(file.parent / picture.path, root) for picture in pictures)
        pictures = [replace(p, path=Path(path).as_posix()) for p, path in zip(pictures, paths, strict=True)]
    return pictures


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
    members: dict[str, set[str]] = {}
    for picture in pictures:
        members.setdefault(picture.label, set()).add(named[picture.path])
    if by == "class":
        ranked = sorted(members, key=lambda label: _hash(seed, label))
        unseen = set(ranked[: max(1, round(held_out * len(ranked)))])
        if len(unseen) == len(ranked):
            raise ValueError("one class cannot be split by class: two or more are trained on, and others tested")
        return [Picture(p.path, p.label, "test" if p.label in unseen else "train") for p in pictures]
    tested: set[str] = set()
    for paths in members.values():
        ranked = sorted(paths, key=lambda path: _hash(seed, path))
        tested.update(ranked[: round(held_out * len(ranked)) if len(ranked) > 1 else 0])
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
