"""Pairs of a user's own images: a folder, and a list of who is the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..data import Pairs
from ..data.images import decode_all

__all__ = ["OwnPairs", "read_pairs"]

_SAME = {"1": True, "0": False, "same": True, "different": False, "true": True, "false": False}


@dataclass(frozen=True, eq=False)
class OwnPairs:
    """Images ``(N, C, H, W)`` uint8, and pairs of them."""

    images: Tensor
    files: tuple[str, ...]
    pairs: Pairs


def read_pairs(listing: str | Path, folder: str | Path, channels: int, size: tuple[int, int]) -> OwnPairs:
    r"""Read pairs of images from a list.

    Args:
        listing: file with lines ``left right same [fold]``: names are paths under ``folder``, ``same`` is 1 or 0.
            Without fold numbers there is one fold.
        folder: folder of the images.
        channels: 1 for grey images, 3 for colour.
        size: height and width, which must be those of the images: aligning and resizing faces is the user's choice.

    Returns:
        The images and the pairs.

    Raises:
        ValueError: If a line cannot be read, an image is missing, or its size differs.

    Example:
        >>> from pathlib import Path
        >>> from hypersphere.evaluation import read_pairs
        >>> _ = Path("some.txt").write_text("cat/0.png cat/1.png 1\ncat/0.png dog/0.png 0\n")
        >>> read_pairs("some.txt", "photos/train", 3, (8, 8)).images.shape
        torch.Size([3, 3, 8, 8])
    """
    path, root = Path(listing), Path(folder)
    if not path.is_file():
        raise ValueError(f"{path} is not a file: give a list of pairs, one per line: left right 1|0 [fold]")
    rows: list[tuple[str, str, bool, int]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) not in (3, 4) or words[2].lower() not in _SAME or (len(words) == 4 and not words[3].isdigit()):
            raise ValueError(f"{path}, line {number}: {line.strip()[:80]!r} is not `left right 1|0 [fold]`")
        rows.append((words[0], words[1], _SAME[words[2].lower()], int(words[3]) if len(words) == 4 else 0))
    if not rows:
        raise ValueError(f"{path} names no pairs")
    names = sorted({name for row in rows for name in row[:2]})
    missing = [name for name in names if not (root / name).is_file()]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"{path} names {missing[0]}{more}, which {root} does not hold")
    images = decode_all([root / name for name in names], mode="L" if channels == 1 else "RGB")
    if tuple(images.shape[1:]) != (channels, *size):
        raise ValueError(
            f"the images of {root} are {images.shape[2]}×{images.shape[3]}, but the network takes {size[0]}×{size[1]}: "
            "align and resize them as its training data were"
        )
    place = {name: position for position, name in enumerate(names)}
    left, right = torch.tensor([place[row[0]] for row in rows]), torch.tensor([place[row[1]] for row in rows])
    same, fold = torch.tensor([row[2] for row in rows]), torch.tensor([row[3] for row in rows])
    return OwnPairs(images, tuple(names), Pairs(left, right, same, fold))
