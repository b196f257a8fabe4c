"""Which images of a list of pairs a network has seen in training: their accuracy says nothing about new people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .._core.registries import DATASETS
from ..data import list_images
from ..runs import Run

_NAMED = 3


def trained_on(run: Run, seed: int, files: Sequence[Path]) -> list[int]:
    """The positions of the files that the network of a seed was trained on, as far as the run folder tells.

    Of a user's own images the split is written down: a file counts if it is one of the training files, or a copy of it
    with the same name and class. Of sets of people it counts if its folder is named like a person of that split.
    """
    split, root = run.folder(seed).split, Path(run.config.data.root or "").expanduser()
    if not split.is_file():
        faces = getattr(DATASETS.get(run.config.data.name), "of", None) == "people"
        people = set(run.facts(seed).classes) if faces else set()  # every image of theirs is trained on
        return [number for number, file in enumerate(files) if file.parent.name in people]
    learned: dict[tuple[str, ...], list[Path]] = {}
    for picture in list_images(root, str(split)):
        if picture.split == "train":
            path = root / picture.path
            learned.setdefault(path.parts[-2:], []).append(path)
    return [
        number
        for number, file in enumerate(files)
        if any(_is_copy(file, path) for path in learned.get(file.parts[-2:], ()))
    ]


def warning_of(names: Sequence[str], total: int) -> str:
    """What to tell of listed images that were trained on."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return (
        f"{len(names):,} of the {total:,} listed images were trained on ({', '.join(names[:_NAMED])}{more}): these "
        "numbers do not tell how well images that training never saw are verified"
    )


def _is_copy(file: Path, other: Path) -> bool:
    """Whether both are the same file or have the same bytes; also where the other is gone, so that names must do."""
    if not other.is_file() or file.samefile(other):
        return True
    return file.stat().st_size == other.stat().st_size and file.read_bytes() == other.read_bytes()
