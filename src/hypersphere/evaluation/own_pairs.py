"""Pairs of a user's own images: a folder, and a list of who is the same, in our format or in that of LFW.

Ours has a line for each pair, ``left right same [fold]``: paths under the folder, 1 or 0, and a fold number if the
list has folds. Where a path has spaces, tabs or commas separate the columns; a first line may name them, in any order.
A line that begins with # and is no pair is a comment. LFW's begins
with ``folds count`` (or with ``count`` alone), then has for each fold ``count`` lines ``name 1 4`` of one person and
``count`` lines ``name 1 other 2`` of two.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..data import Pairs
from ..data.images import SUFFIXES, decode_all

_SAME = {"1": True, "0": False, "same": True, "different": False, "true": True, "false": False}
Row = tuple[str, str, bool, int]


@dataclass(frozen=True, eq=False)
class OwnPairs:
    """Images ``(N, C, H, W)`` uint8, their names and paths, and pairs of them."""

    images: Tensor
    files: tuple[str, ...]
    paths: tuple[Path, ...]
    pairs: Pairs


@dataclass(frozen=True)
class Listed:
    """The lines of a list, which names images by path or, in LFW's format, by person and number."""

    path: Path
    rows: tuple[Row, ...]
    lfw: bool

    @property
    def names(self) -> list[str]:
        """Every image that is named, once."""
        return sorted({name for row in self.rows for name in row[:2]})

    def locate(self, root: Path) -> dict[str, Path]:
        """The file of each name that ``root`` holds."""
        found = ((name, self._file(root, name)) for name in self.names)
        return {name: file for name, file in found if file is not None}

    def _file(self, root: Path, name: str) -> Path | None:
        if not self.lfw:
            return root / name if (root / name).is_file() else None
        person = name.rpartition("_")[0]
        places: Iterable[Path] = (root / person / name, root / name)
        return next(
            (file for place in places for end in _ENDS if (file := place.with_name(name + end)).is_file()), None
        )


_ENDS = (".jpg", *sorted(SUFFIXES - {".jpg"}))


@dataclass(frozen=True)
class Size:
    """How images are brought to the size of the network, as in training.

    Args:
        channels: 1 or 3.
        shape: Height and width.
        resized: As in :class:`hypersphere.runs.Facts`.
        resize: ``data.resize``, for ``resized="window"``.
        shrink: ``data.shrink``: so many by so many pixels are averaged into one.
    """

    channels: int
    shape: tuple[int, int]
    resized: str | None = None
    resize: int = 256
    shrink: int = 1

    def decode(self, files: list[Path], folder: Path) -> Tensor:
        """All images at the size of the network."""
        mode = "L" if self.channels == 1 else "RGB"
        size = None if self.resized is None else self.shape
        images = decode_all(files, mode, size=size, resize=self.resize if self.resized == "window" else None)
        height, width = images.shape[2:]
        if self.shrink > 1 and (height, width) == tuple(self.shrink * side for side in self.shape):
            small = torch.nn.functional.avg_pool2d(images.float(), self.shrink)
            images = small.round().to(torch.uint8)
        if tuple(images.shape[1:]) != (self.channels, *self.shape):
            tall, wide = (self.shrink * side for side in self.shape)
            raise ValueError(
                f"the images of {folder} are {height}×{width}, but the network takes {tall}×{wide} and was trained on "
                "images of that size: align and resize them as its training data were"
            )
        return images


def read_pairs(listing: str | Path, folder: str | Path, size: Size) -> OwnPairs:
    r"""Read the pairs of a list and the images they name.

    Args:
        listing: A file in our format or in LFW's: see the top of this module.
        folder: What the names of our format are relative to; for LFW's, the folder of the people.
        size: How the images are brought to the size of the network.

    Returns:
        The images, their names, and the pairs as positions among them. Without fold numbers there is one fold.

    Raises:
        ValueError: If a line cannot be read (it is named), or an image is not there or has another size.

    Example:
        >>> from pathlib import Path
        >>> from hypersphere.evaluation import read_pairs
        >>> from hypersphere.evaluation.own_pairs import Size
        >>> _ = Path("some.txt").write_text("cat/0.png cat/1.png 1\ncat/0.png dog/0.png 0\n")
        >>> read_pairs("some.txt", "photos/train", Size(3, (8, 8))).images.shape
        torch.Size([3, 3, 8, 8])
    """
    root, found = Path(folder), read_list(listing)
    files = found.locate(root)
    missing = [name for name in found.names if name not in files]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"{found.path} names {missing[0]}{more}, which {root} does not hold")
    names = found.names
    images = size.decode([files[name] for name in names], root)
    place = {name: position for position, name in enumerate(names)}
    left, right = (
        torch.tensor([place[row[0]] for row in found.rows]),
        torch.tensor([place[row[1]] for row in found.rows]),
    )
    same, fold = torch.tensor([row[2] for row in found.rows]), torch.tensor([row[3] for row in found.rows])
    return OwnPairs(images, tuple(names), tuple(files[name] for name in names), Pairs(left, right, same, fold))


def read_list(listing: str | Path) -> Listed:
    """The lines of a list of either format: LFW's begins with one or two whole numbers."""
    path = Path(listing)
    if not path.is_file():
        raise ValueError(
            f"{path} is not a file: give a list of pairs, one per line: left right 1|0 [fold], or LFW's own"
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text in UTF-8: save it as one ({error})") from error
    cells = [
        (number, columns)
        for number, line in enumerate(text.splitlines(), start=1)
        if (words := _filled(columns := _columns(line))) and not _is_comment(words)
    ]
    if not cells:
        raise ValueError(f"{path} names no pairs")
    header = _filled(cells[0][1])
    lfw = len(header) <= 2 and all(word.isdigit() for word in header)
    if len(cells) > 1 and "." not in header[0] and any(map(_is_image, cells[1][1])):
        number, names = cells.pop(0)
        cells = _in_order(path, number, names, cells)
    lines = [(number, _filled(columns)) for number, columns in cells]
    rows = _lfw_rows(path, header, lines[1:]) if lfw else [_own_row(path, *line) for line in lines]
    if not lfw and len({len(words) for _, words in lines}) > 1:
        number = next(number for number, words in lines if len(words) == 3)
        raise ValueError(f"{path}, line {number}: this pair has no fold, and others have: give all one, or none")
    if not rows:
        raise ValueError(f"{path} names no pairs")
    return Listed(path, tuple(rows), lfw)


def find_images(listing: str | Path, candidates: Iterable[Path]) -> Path:
    """The folder among the candidates that holds the images of a list.

    Raises:
        ValueError: If none holds them all; the message names the best one and what it lacks.
    """
    found = read_list(listing)
    located: dict[Path, set[str]] = {}
    for folder in dict.fromkeys(filter(Path.is_dir, candidates)):
        located[folder] = set(found.locate(folder))
        if len(located[folder]) == len(found.names):
            return folder
    if best := max(located, key=lambda folder: len(located[folder]), default=None):
        missing = [name for name in found.names if name not in located[best]]
        if located[best]:
            raise ValueError(f"{len(missing)} of the images that {found.path} names are not in {best}: {missing[0]}")
    looked = ", ".join(map(str, located))
    raise ValueError(
        f"the images that {found.path} names, {found.names[0]} and others, were not found in {looked}: name their "
        "folder with --images"
    )


def _is_image(name: str) -> bool:
    return Path(name).suffix.lower() in SUFFIXES


def _is_comment(words: list[str]) -> bool:
    is_pair = len(words) in (3, 4) and words[2].lower() in _SAME and _is_image(words[0])
    return words[0].startswith("#") and not is_pair


_COLUMNS = ("left", "right", "same", "fold")


def _in_order(
    path: Path, number: int, names: list[str], lines: list[tuple[int, list[str]]]
) -> list[tuple[int, list[str]]]:
    """The lines with their columns as we read them, where the first line names them as we do."""
    places = {name.lower(): place for place, name in enumerate(names) if name}
    if set(_COLUMNS[:3]) <= places.keys() and len(places) == len(_filled(names)):
        order = [places[name] for name in _COLUMNS if name in places]
        whole = ((at, words if len(words) == len(names) else _filled(words)) for at, words in lines)
        return [(at, [words[place] for place in order] if len(words) == len(names) else words) for at, words in whole]
    if any(places.get(name, place) != place for place, name in enumerate(_COLUMNS)):
        raise ValueError(
            f"{path}, line {number}: the columns are named {', '.join(names)}: name left, right, same (and fold), or "
            "leave the line out"
        )
    return lines  # other words, in our order


def _columns(line: str) -> list[str]:
    """The columns of a line: between tabs, else between commas, else between spaces. Between marks one may be empty."""
    between = next((mark for mark in ("\t", ",") if mark in line), None)
    columns = line.split() if between is None else next(csv.reader([line], delimiter=between, skipinitialspace=True))
    return [word.strip() for word in columns]


def _filled(columns: list[str]) -> list[str]:
    return [word for word in columns if word]


def _own_row(path: Path, number: int, words: list[str]) -> Row:
    if len(words) not in (3, 4) or words[2].lower() not in _SAME or (len(words) == 4 and not words[3].isdigit()):
        raise ValueError(
            f"{path}, line {number}: {' '.join(words)[:80]!r} is not `left right 1|0 [fold]`; where a path has spaces, "
            "separate the columns by tabs or commas"
        )
    return words[0], words[1], _SAME[words[2].lower()], int(words[3]) if len(words) == 4 else 0


def _lfw_rows(path: Path, header: list[str], lines: list[tuple[int, list[str]]]) -> list[Row]:
    count, rows = int(header[-1]), []
    for position, (number, words) in enumerate(lines):
        if len(words) not in (3, 4) or not words[1].isdigit() or not words[-1].isdigit():
            raise ValueError(f"{path}, line {number}: {' '.join(words)[:80]!r} is not `name 1 4` or `name 1 other 2`")
        other = words[2] if len(words) == 4 else words[0]
        one, two = (f"{person}_{int(of):04d}" for person, of in ((words[0], words[1]), (other, words[-1])))
        rows.append((one, two, len(words) == 3, position // max(2 * count, 1)))
    if len(rows) != 2 * count * (int(header[0]) if len(header) == 2 else 1):
        raise ValueError(f"{path} begins with {' '.join(header)!r}, but {len(rows)} pairs follow")
    return rows
