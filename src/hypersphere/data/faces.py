"""Aligned faces in folders: CASIA-WebFace and others for training, YouTube Faces and MegaFace for evaluation."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from .._core.checks import check_count
from ._store import PUT_THERE, Store
from .folder import ImageFolder
from .listing import images_below
from .pairs import Pairs

EXCLUDED = "excluded.txt"
# name → folders that a set may lie in, where its files come from
PEOPLE = {
    "casia": (("casia-webface", "CASIA-WebFace", "CASIA-WebFace-112X96"), "CASIA-WebFace (Yi et al. 2014)"),
    "imdb_face": (("imdb-face", "IMDb-Face"), "IMDb-Face (Wang et al. 2018)"),
    "ms_celeb": (("ms-celeb-1m", "MS-Celeb-1M"), "MS-Celeb-1M (Guo et al. 2016)"),
}
YTF = ("ytf", "aligned_images_DB", "YouTubeFaces/aligned_images_DB")
PROBES, DISTRACTORS = "facescrub_features_list.json", "megaface_features_list.json_1000000_1"


@dataclass(frozen=True, eq=False)
class Videos:
    """Frames on disk, and pairs of videos in folds.

    Attributes:
        name: Name of the data set, as in :func:`hypersphere.data.load`.
        root: Folder that the paths in ``files`` are relative to.
        files: Paths of the frames, relative to ``root``.
        video: Video of each frame, an index into ``names``.
        names: Names of the videos, ``person/number``.
        labels: Person in each video, an index into ``people``.
        people: Names of the people, in the order of their indices.
        pairs: Pairs of videos with their folds; they index ``names``.

    Example:
        >>> from pathlib import Path
        >>> pairs = hs.data.make_pairs(torch.arange(8) % 4, folds=2, each=1)
        >>> names = tuple(f"{'abcd'[number % 4]}/{number}" for number in range(8))
        >>> files = tuple(f"{name}/{frame}.jpg" for name in names for frame in range(3))
        >>> video = torch.arange(8).repeat_interleave(3)
        >>> videos = hs.data.Videos("mine", Path("."), files, video, names, torch.arange(8) % 4, tuple("abcd"), pairs)
        >>> len(videos.thinned(2).files)
        16
    """

    name: str
    root: Path
    files: tuple[str, ...]
    video: Tensor
    names: tuple[str, ...]
    labels: Tensor
    people: tuple[str, ...]
    pairs: Pairs

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"Videos({self.name!r}, {len(self)} videos, {len(self.files)} frames, {len(self.pairs)} pairs)"

    def thinned(self, frames: int) -> Videos:
        """Keep some frames of each video.

        Args:
            frames: largest number of frames of a video; they are evenly spaced.

        Returns:
            A copy of the set with the frames that are kept.
        """
        check_count("frames", frames)
        kept: list[int] = []
        for number in range(len(self)):
            own = (self.video == number).nonzero().squeeze(1).tolist()
            count = min(frames, len(own))
            kept += [own[place * len(own) // count] for place in range(count)]
        return replace(self, files=tuple(self.files[place] for place in kept), video=self.video[kept])

    @property
    def frames(self) -> ImageFolder:
        """The frames as a folder whose classes are the videos."""
        return ImageFolder(self.root, self.files, self.video, self.names)


@dataclass(frozen=True, eq=False)
class MegaFace:
    """MegaFace challenge 1: people to be found (FaceScrub) among faces of others.

    Attributes:
        name: Name of the data set, as in :func:`hypersphere.data.load`.
        probes: Images of the people to be found.
        distractors: Images of people who are not among the probes.

    Example:
        >>> folder = hs.data.ImageFolder.scan("photos/train")
        >>> hs.data.MegaFace("mine", probes=folder, distractors=folder).name
        'mine'
    """

    name: str
    probes: ImageFolder
    distractors: ImageFolder

    def __repr__(self) -> str:
        return f"MegaFace({len(self.probes)} probes of {len(self.probes.classes)}, {len(self.distractors)} distractors)"


def people(store: Store) -> ImageFolder:
    """``casia-webface/<identity>/*.jpg``: aligned faces, all of them for training.

    ``excluded.txt`` in that folder names what to leave out, one ``<identity>`` or ``<identity>/<image>`` a line: the
    documents leave out everybody who is also in a test set. Lines that name nothing are allowed, since whoever is
    named may have been removed already.
    """
    folders, title = PEOPLE[store.name]
    folder = _folder(store, folders)
    if folder is None:
        raise FileNotFoundError(
            _missing(
                store,
                title,
                folders[0],
                "<identity>/*.jpg, faces aligned and cropped to one size (112×96 in the documents), "
                f"and {EXCLUDED}, a line for each identity that is also in a test set",
            )
        )
    return _without(ImageFolder.scan(folder), _lines(folder / EXCLUDED))


def ytf(store: Store) -> Videos:
    """YouTube Faces: ``ytf/<person>/<number>/*.jpg``, and the published ``splits.txt`` there or beside it.

    Its lines are ``split, pair, video, video, ..., same``: 5,000 pairs of videos in ten splits. Its correction,
    ``splits_corrected.txt``, will do under that name.
    """
    folder = _folder(store, YTF)
    listing = None if folder is None else _beside(folder, "splits.txt")
    if folder is None or listing is None:
        wanted = "<person>/<number>/*.jpg, aligned frames of one size, and splits.txt"
        raise FileNotFoundError(_missing(store, "YouTube Faces (Wolf et al. 2011)", YTF[0], wanted))
    rows = [_row(listing, line) for line in listing.read_text().splitlines() if line.strip()[:1].isdigit()]
    if not rows:
        raise ValueError(f"{listing} names no pairs: expected lines `split, pair, video, video, ..., same`")
    names = sorted({name for _, *both, _ in rows for name in both})
    place = {name: number for number, name in enumerate(names)}
    files: list[str] = []
    video: list[int] = []
    for number, name in enumerate(names):
        frames = sorted(_pictures(folder / name))
        if not frames:
            raise FileNotFoundError(f"{listing} names the video {name}, but {folder / name} holds no images")
        files += frames
        video += [number] * len(frames)
    who = [name.rpartition("/")[0] or name for name in names]
    members = sorted(set(who))
    columns = [(place[one], place[other], same, split) for split, one, other, same in rows]
    left, right, same, split = (torch.tensor(column) for column in zip(*columns, strict=True))
    return Videos(
        name=store.name,
        root=folder,
        files=tuple(files),
        video=torch.tensor(video),
        names=tuple(names),
        labels=torch.tensor([members.index(name) for name in who]),
        people=tuple(members),
        pairs=Pairs(left, right, same, split - split.min()),
    )


def megaface(store: Store) -> MegaFace:
    """``megaface/facescrub/<person>/*`` and ``megaface/distractors/**``.

    The challenge's lists, ``facescrub_features_list.json`` (3,530 probes of 80 people) and
    ``megaface_features_list.json_1000000_1``, choose and order the images if they lie there (or in ``templatelists``);
    else all images count, in sorted order.
    """
    folder = _folder(store, ("megaface", "MegaFace"))
    parts = None if folder is None else (folder / "facescrub", folder / "distractors")
    if folder is None or parts is None or not all(part.is_dir() for part in parts):
        wanted = (
            f"facescrub/<person>/*.jpg and distractors/**/*.jpg, aligned; {PROBES} and {DISTRACTORS} if you have them"
        )
        raise FileNotFoundError(_missing(store, "MegaFace challenge 1", "megaface", wanted))
    probes, others = (
        _listed(part, _beside(folder / "templatelists", listing))
        for part, listing in zip(parts, (PROBES, DISTRACTORS), strict=True)
    )
    owner = [name.partition("/")[0] for name in probes]
    names = tuple(sorted(set(owner)))
    number = {name: label for label, name in enumerate(names)}
    return MegaFace(
        store.name,
        ImageFolder(parts[0], _under(parts[0], probes), torch.tensor([number[name] for name in owner]), names),
        ImageFolder(parts[1], _under(parts[1], others), torch.zeros(len(others), dtype=torch.int64), ("distractor",)),
    )


def _folder(store: Store, names: tuple[str, ...]) -> Path | None:
    """The folder of the set under the root; the root itself may be it."""
    if store.root.name in names and store.root.is_dir():
        return store.root
    return next((store.root / name for name in names if (store.root / name).is_dir()), None)


def _beside(folder: Path, name: str) -> Path | None:
    """The file ``name`` in the folder or beside it."""
    return next((path for path in (folder / name, folder.parent / name) if path.is_file()), None)


def _missing(store: Store, title: str, folder: str, holding: str) -> str:
    return (
        f"data set {store.name!r} is not in {store.root}: {title} is not public, ask its authors.\n"
        f"  folder:  {store.root / folder}\n  holding: {holding}\n"
        f"{PUT_THERE}"
    )


def _lines(path: Path) -> frozenset[str]:
    if not path.is_file():
        return frozenset()
    words = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return frozenset(word.rstrip("/") for word in words if word)


def _without(folder: ImageFolder, excluded: frozenset[str]) -> ImageFolder:
    """The folder without the identities and images named; who is left is counted again from 0."""
    if not excluded:
        return folder
    owners = [folder.classes[label] for label in folder.labels.tolist()]
    kept = [
        place
        for place, (file, owner) in enumerate(zip(folder.files, owners, strict=True))
        if owner not in excluded and Path(file).relative_to(folder.root).as_posix() not in excluded
    ]
    if not kept:
        raise ValueError(f"{folder.root / EXCLUDED} leaves out every image of {folder.root}")
    members, labels = folder.labels[kept].unique(return_inverse=True)
    names = tuple(folder.classes[member] for member in members.tolist())
    return ImageFolder(folder.root, tuple(folder.files[place] for place in kept), labels, names)


def _row(listing: Path, line: str) -> tuple[int, str, str, bool]:
    words = [word.strip() for word in line.split(",")]
    if len(words) < 5 or words[-1] not in ("0", "1"):
        raise ValueError(f"{listing} has the line {line!r}: expected `split, pair, video, video, ..., 0 or 1`")
    return int(words[0]), words[2], words[3], words[-1] == "1"


def _listed(folder: Path, listing: Path | None) -> list[str]:
    """Paths under the folder with ``/``, those of the list or all."""
    if listing is None:
        found = sorted(Path(file).relative_to(folder).as_posix() for file in _pictures(folder))
        if not found:
            raise FileNotFoundError(f"{folder} holds no images")
        return found
    try:
        names = [str(name) for name in json.loads(listing.read_text())["path"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f'{listing} is not a list of the challenge, {{"path": [...]}}: {error!r}') from error
    for name in names:
        if not (folder / name).is_file():
            raise FileNotFoundError(f"{listing} names {folder / name}, which is not there")
    return names


def _pictures(folder: Path) -> Iterable[str]:
    return (os.path.join(place, file) for place, files in images_below(folder) for file in files)


def _under(folder: Path, names: list[str]) -> tuple[str, ...]:
    return tuple(str(folder / name) for name in names)
