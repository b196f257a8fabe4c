"""The user's own images in a training: the split that is written down, and the files that are left out.

Every image is opened before the first step. A streamed one that is damaged behind its header shows only when a batch
needs it: the training stops and notes the file, and the same command continues without it. The split of all others
stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from ..config import Config
from ..data import OwnImages, list_images, write_table
from ..data.folder import UnreadableImage
from ..data.table import Picture
from ..runs import SeedFolder, read_config
from ..runs.files import write_bytes

_READ = 32  # how many images are compared byte by byte


def describe(own: OwnImages, config: Config, folder: SeedFolder) -> str:
    """Write down the split and the files that could not be read; a few words about them for the user.

    Raises:
        ValueError: If a training that is to continue, or another seed of the run, was started with other images.
    """
    about = own.summary(config.data.image_size)
    if folder.split.exists() and (folder.latest() is not None or folder.damaged.exists()):
        _compare(own, folder)
        if folder.damaged.exists():
            about += f"; {len(_noted(folder)):,} left out since (in {folder.damaged})"
    else:
        for seed in _begun(folder.path.parent):  # the result of a run is the mean of its seeds
            _compare(own, SeedFolder(seed.parent, int(seed.name.removeprefix("seed-"))))
        write_table(folder.split, own.pictures)
    if own.unreadable:
        listed = folder.path / "unreadable.txt"
        write_bytes(listed, "".join(f"{path}: {why}\n" for path, why in own.unreadable.items()).encode())
        about += f" (all in {listed})"
    return about


def check_root(folder: Path, config: Config) -> None:
    """Refuse other images than those that a run has begun with.

    Copies have the same names and sizes, and some that are read the same content; where those of before are gone, the
    names alone are compared.

    Raises:
        ValueError: If the folder that is named now holds others.
    """
    if config.data.name != "folder" or config.data.root is None or not (folder / "config.json").exists():
        return
    try:
        before, now = read_config(folder, follow=False).data.root, Path(config.data.root).expanduser()
    except (ValueError, TypeError, AttributeError, RecursionError):  # of no run of ours, which is said later
        return
    first = None if before is None else Path(before).expanduser()
    if first is None or not now.is_dir() or (first.is_dir() and first.samefile(now)):
        return
    splits = (list_images(seed, str(seed / "split.csv")) for seed in _begun(folder))
    paths = sorted({picture.path for split in splits for picture in split})
    read = set(paths[:: max(1, len(paths) // _READ)])
    others = [path for path in paths if not _is_same(first / path, now / path, path in read)]
    if others:
        raise ValueError(
            f"{folder} was started with the images in {first}; {len(others):,} of these are missing or different in "
            f"{now}, the first is {others[0]}. Choose another --run.name, or remove the folder"
        )


def _compare(own: OwnImages, seed: SeedFolder) -> None:
    """Refuse other images than those that a seed was started with; the damaged ones that it left out do not count.

    Raises:
        ValueError: If an image was added or removed, or has another class or split.
    """
    before, now = _rows(list_images(seed.path, str(seed.split))), _rows(own.pictures)
    changed = {picture.path for picture in (before - now) + (now - before)}
    if seed.damaged.exists():
        changed -= _left_out(seed)
    if changed:
        raise ValueError(
            f"the images in {own.train.root} are not those that {seed.path} was started with: "
            f"{len(changed)} differ, the first is {min(changed)} (hidden files are no longer read). Restore "
            "them, replacing damaged ones by others of the same name, or give another --run.name"
        )


def _begun(run: Path) -> list[Path]:
    """The folders of the seeds that have something to show for their images."""
    return sorted(
        path.parent
        for path in run.glob("seed-*/split.csv")
        if path.parent.name.removeprefix("seed-").isdecimal()
        and any(any(path.parent.glob(name)) for name in ("result.json", "damaged.txt", "checkpoints/step-*"))
    )


def _is_same(before: Path, now: Path, read: bool) -> bool:
    """Whether a file can be the one that was there before; where that is gone, any of its name can."""
    if not now.is_file() or not before.is_file():
        return now.is_file()
    if before.stat().st_size != now.stat().st_size:
        return False
    return not read or before.read_bytes() == now.read_bytes()


def note(error: UnreadableImage, own: OwnImages, folder: SeedFolder) -> str:
    """Note a damaged image, so that the training can continue without it; what to tell the user."""
    found = next((p for p in own.pictures if str(own.train.root / p.path) == error.file), None)
    if found is None:  # of another set, which is evaluated on
        return str(error)
    left = {p.label for p in own.pictures if p.split == "train" and p.path != found.path}
    if found.split == "train" and found.label not in left:
        return f"{error.why}; it is the only image of class {found.label!r} to train on: put another in its place"
    with open(folder.damaged, "a", encoding="utf-8") as out:  # another process may note one at the same time
        out.write(f"{found.path}: {' '.join(error.why.split())}\n")
    return f"{error.why}; it is noted in {folder.damaged}: give the same command again to continue without it"


def settle(folder: SeedFolder) -> None:
    """Take the images that were noted out of the split; one process does so, before the images are read."""
    if not (folder.split.exists() and folder.damaged.exists()):
        return
    before = list_images(folder.path, str(folder.split))
    left_out = _left_out(folder)
    kept = [picture for picture in before if picture.path not in left_out]
    if len(kept) < len(before):
        write_table(folder.split, kept)


def _rows(pictures: Iterable[Picture]) -> Counter[Picture]:
    """As a table has them: without blanks around the names of folders."""
    return Counter(Picture(p.path.strip(), p.label.strip(), p.split) for p in pictures)


def _left_out(folder: SeedFolder) -> set[str]:
    """Every path that a line about a damaged image can begin with: a path may hold ``": "`` itself."""
    return {line[:end] for line in _noted(folder) for end in range(len(line)) if line.startswith(": ", end)}


def _noted(folder: SeedFolder) -> list[str]:
    return folder.damaged.read_text(encoding="utf-8").splitlines()
