"""The images of a user, before they are split: folders of classes, trees of splits, or a table of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from .images import SUFFIXES
from .table import SPLITS, UNSPLIT, WORDS, Picture, read_table

_HIDDEN = (".", "__MACOSX")
"""How names begin that programs make beside the images: ``.ipynb_checkpoints``, ``._1.jpg``."""
_OTHER_FORMATS = (".heic", ".heif", ".avif", ".jxl", ".jfif", ".jp2", ".dng", ".nef", ".cr2", ".psd", ".tga", ".svg")


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
        return read_table(root, Path(table))
    if not root.is_dir():
        raise FileNotFoundError(
            f"{root} is not a folder: name the one that holds your images with root= (--data.root to train, --root "
            "afterwards), and a CSV file of paths and labels with table= (--data.table)"
        )
    inside = subfolders(root)
    place = root
    while len(inside) == 1 and subfolders(place / inside[0]) and not _images(os.listdir(place / inside[0])):
        place /= inside[0]  # what an archive was unpacked to, or a folder "train" alone
        inside = subfolders(place)
    words = [(WORDS[name.lower()], name) for name in inside if name.lower() in WORDS]
    parts = [(split, name) for split, name in words if subfolders(place / name)]
    if {"train"} < {split for split, _ in parts}:
        for split in SPLITS:
            if len(same := [name for one, name in parts if one == split]) > 1:
                raise ValueError(f"{place} has two folders for {split}: {same[0]} and {same[1]}. Rename one of them")
        parts.sort(key=lambda part: SPLITS.index(part[0]))
        return [p for split, name in parts for p in _from_classes(root, place / name, split)]
    no_classes = {"train"} < {split for split, _ in words} and len(words) == len(inside)
    pictures = [] if no_classes else _from_classes(root, place, UNSPLIT)
    if not pictures:
        others = ", ".join(f"{count:,} {kind}" for kind, count in count_not_read(root).items())
        raise FileNotFoundError(
            f"data set 'folder': {root} has no images in class folders"
            + (f" (but {others})" if others else "")
            + f": expected {root}/<class>/<image>.jpg, or {root}/train/<class>/... and {root}/test/<class>/...; name "
            "the folder with root=... (--data.root to train, --root afterwards) or $HYPERSPHERE_DATA"
        )
    return pictures


def subfolders(place: Path) -> list[str]:
    """The names of the folders in a folder, sorted; what programs hide there is passed over."""
    return sorted(entry.name for entry in os.scandir(place) if entry.is_dir() and not entry.name.startswith(_HIDDEN))


def _images(names: Iterable[str]) -> list[str]:
    return sorted(n for n in names if os.path.splitext(n)[1].lower() in SUFFIXES and not n.startswith(_HIDDEN))


def images_below(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each folder in and below one, with the names of its images, both sorted; what is hidden is passed over."""
    yield from sorted((place, _images(members)) for place, members in _visible(folder))


def _visible(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Each folder in and below one that is not hidden, with its files; one that may not be listed raises an OSError.

    Links to folders are followed, but not to one that is above the link.
    """

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # a class without a folder has no images
            raise OSError(f"{error.filename} cannot be listed ({error.strerror}): make it readable, or take it out")

    above = {os.fspath(folder): {os.path.realpath(folder)}}
    for place, folders, members in os.walk(folder, onerror=refuse, followlinks=True):
        own, here = above.pop(place), os.path.realpath(place)
        below = {name: os.path.realpath(os.path.join(place, name)) for name in folders if not name.startswith(_HIDDEN)}
        folders[:] = [name for name in below if below[name] not in own and not _holds(below[name], here)]
        above |= {os.path.join(place, name): own | {below[name]} for name in folders}
        yield place, members


def _holds(folder: str, inside: str) -> bool:
    return inside == folder or inside.startswith(os.path.join(folder, ""))


def _from_classes(root: Path, folder: Path, split: str) -> list[Picture]:
    found = []
    for name in subfolders(folder):
        for place, images in images_below(folder / name):
            paths = (Path(place, image).relative_to(root).as_posix() for image in images)
            found += [Picture(_in_utf8(path), name, split) for path in paths]
    return found


def _in_utf8(path: str) -> str:
    """``path``, refused if it is not text: the split is made by names, and written down."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        shown = os.fsencode(path).decode(errors="backslashreplace")
        raise ValueError(
            f"{shown} has a name that is not in UTF-8, as archives of other systems have: rename it (convmv renames "
            "all files of a folder)"
        ) from error
    return path


def count_not_read(root: Path) -> dict[str, int]:
    """Files that the user may take for images of the set: other formats, and images beside the class folders."""
    loose = len(_images(entry.name for entry in os.scandir(root) if entry.is_file()))
    found = {f"images in {root.name or root} itself, in no class folder": loose} if loose else {}
    ends: Counter[str] = Counter()
    for _, members in _visible(root):
        ends.update(os.path.splitext(name)[1].lower() for name in members if not name.startswith(_HIDDEN))
    return found | {f"{end} (save as JPEG or PNG)": ends[end] for end in _OTHER_FORMATS if ends[end]}
