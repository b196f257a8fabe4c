"""Tables of a user's images: a file with the columns path, label and split, one image a row."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

SPLITS = ("train", "val", "test")
WORDS = {one: one for one in SPLITS} | {"training": "train", "testing": "test"}
WORDS |= dict.fromkeys(("valid", "validation", "dev", "eval", "evaluation"), "val")
UNSPLIT = ""
_EXACT = '"path","label","split"\r\n'
"""How a table begins whose cells are all in quotes: blanks and line breaks belong to the names."""


@dataclass(frozen=True)
class Picture:
    """One file, relative to the folder of the set; its class; and the part of the set that it belongs to, if any."""

    path: str
    label: str
    split: str = UNSPLIT


def write_table(file: Path, pictures: Iterable[Picture]) -> None:
    """Write a split to a file with columns ``path,label,split``, which ``table=`` of :func:`load` reads.

    If a name begins or ends with a blank, or contains a line break, all cells are quoted, including the first line. A
    quoted table is read literally.

    Args:
        file: path of the CSV file to write.
        pictures: path, class and split of each image.

    Example:
        >>> from pathlib import Path
        >>> hs.data.write_table(Path("split.csv"), hs.data.list_images(Path("photos")))
        >>> Path("split.csv").read_text().splitlines()[0]
        'path,label,split'
    """
    rows = [("path", "label", "split"), *((p.path, p.label, p.split) for p in pictures)]
    exact = any(word != word.strip() or "\n" in word or "\r" in word for row in rows for word in row)
    with open(file, "w", newline="", encoding="utf-8") as out:
        csv.writer(out, quoting=csv.QUOTE_ALL if exact else csv.QUOTE_MINIMAL).writerows(rows)


def read_table(root: Path, table: Path) -> list[Picture]:
    """The rows of a table: columns between commas, semicolons or tabs, paths relative to ``root`` or to the table.

    An image that is listed twice counts twice.
    """
    file = table if table.is_absolute() or table.exists() else root / table
    if not file.exists():
        raise FileNotFoundError(f"table={str(table)!r} is neither here nor in {root}")
    pictures, known = [], dict[str, Picture]()
    for number, cells in _rows(file):
        picture = _picture(f"{file}, line {number}", cells)
        before = known.setdefault(os.path.normpath(picture.path), picture)  # ./a.jpg is a.jpg, but is split by its name
        if (before.label, before.split) != (picture.label, picture.split):
            raise ValueError(f"{file}, line {number}: {picture.path} is listed before with another label or split")
        pictures.append(picture)
    if not pictures:
        raise ValueError(f"{file} names no images")
    unnamed = sum(picture.split == UNSPLIT for picture in pictures)
    if 0 < unnamed < len(pictures):
        raise ValueError(f"{file} names a split for some images and none for {unnamed}: name all or none")
    if not (root / pictures[0].path).exists() and (file.parent / pictures[0].path).exists():
        paths = (os.path.relpath(file.parent / picture.path, root) for picture in pictures)
        pictures = [replace(p, path=Path(path).as_posix()) for p, path in zip(pictures, paths, strict=True)]
    return pictures


def _picture(line: str, cells: dict[str, str]) -> Picture:
    path, label, split = (cells.get(name, "") for name in ("path", "label", "split"))
    if not path or not label:
        raise ValueError(f"{line}: a row needs a path and a label")
    if split.lower() not in (*WORDS, UNSPLIT):
        raise ValueError(f"{line}: split={split!r} must be train, val or test")
    return Picture(path, label, WORDS.get(split.lower(), UNSPLIT))


def _rows(file: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The number of each line that is not empty, and its cells by the names of the columns."""
    text = _text(file)
    exact = text.startswith(_EXACT)
    if not exact:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    first = text.partition("\n")[0]
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), skipinitialspace=not exact)
    columns = [word.strip().lower() for word in next(rows, [])]
    if not {"path", "label"} <= set(columns):
        raise ValueError(f"{file} needs a first line with the columns path,label (and split, if it is to name one)")
    if twice := [name for name in ("path", "label", "split") if columns.count(name) > 1]:
        raise ValueError(f"{file} has two columns named {twice[0]}: rename one of them")
    end = rows.line_num
    for row in rows:
        begin, end = end + 1, rows.line_num
        if not exact and (end > begin or any("\n" in word for word in row)):
            raise ValueError(f"{file}, line {begin}: a quote begins that does not end in this line")
        if any(row[len(columns) :]):
            raise ValueError(
                f"{file}, line {end}: {len(row)} columns, but the first line names {len(columns)}: put a path or label "
                "that has a separator in quotes"
            )
        if any(row):
            yield end, {name: word if exact else word.strip() for name, word in zip(columns, row, strict=False)}


def _text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not in UTF-8: save it as `CSV UTF-8` ({error})") from error
