"""Labeled Faces in the Wild (Huang et al. 2007): 13,233 faces of 5,749 people, View 1 people and View 2 pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from .._core.modes import on_host
from ._download import Remote
from ._store import Layout, Store
from .images import decode_all
from .pairs import Pairs
from .types import Dataset, Split

# MD5 of the published lists. The images are not checked: aligned copies of them are as good.
LISTS = {
    "pairs.txt": "9f1ba174e4e1c508ff7cdf10ac338a7d",
    "pairsDevTrain.txt": "4f27cbf15b2da4a85c1907eb4181ad21",
    "pairsDevTest.txt": "5132f7440eb68cf58910c8a45a2ac10b",
    "peopleDevTrain.txt": "54eaac34beb6d042ed3a7d883e247a21",
    "peopleDevTest.txt": "e4bf5be0a43b5dcd9dc5ccfcb8fb19c5",
}
_SITE = "http://vis-www.cs.umass.edu/lfw"
LFW = Layout(
    ("lfw", "lfw_funneled", "lfw-deepfunneled"),
    tuple((name, f"../{name}") for name in LISTS),
    (
        Remote(f"{_SITE}/lfw.tgz", "", "a17d05bd522c52d84eca14327a23d494", unpack=True),
        *(Remote(f"{_SITE}/{name}", f"lfw/{name}", md5) for name, md5 in LISTS.items()),
    ),
)


@dataclass(frozen=True, eq=False)
class Faces:
    """Face images on disk, who is on them, and the official pairs. Images are decoded when asked for.

    Attributes:
        name: Name of the data set, as in :func:`hypersphere.data.load`.
        files: Paths of the image files, one for each image.
        labels: Person in each image, an index into ``people``.
        people: Names of the people, in the order of their indices.
        pairs: View 2, 10 folds of 300 + 300 pairs; they index ``files``.
        train_pairs: The training pairs of View 1.
        test_pairs: The test pairs of View 1.
        train_index: Indices of the images of the DevTrain people of View 1.
        test_index: Indices of the images of the DevTest people, who are not among the DevTrain people.

    Example:
        >>> from pathlib import Path
        >>> people, images = torch.arange(8) % 4, torch.arange(8)
        >>> pairs = hs.data.make_pairs(people, folds=2, each=1)
        >>> files = tuple(Path(f"photos/{number}.png") for number in range(8))
        >>> faces = hs.data.Faces("mine", files, people, tuple("abcd"), pairs, pairs, pairs, images, images)
        >>> len(faces.people)
        4
    """

    name: str
    files: tuple[Path, ...]
    labels: Tensor
    people: tuple[str, ...]
    pairs: Pairs
    train_pairs: Pairs
    test_pairs: Pairs
    train_index: Tensor
    test_index: Tensor

    def __len__(self) -> int:
        return len(self.files)

    def __repr__(self) -> str:
        return f"Faces({self.name!r}, {len(self)} images of {len(self.people)} people, {len(self.pairs)} pairs)"

    @on_host()
    def images(self, index: Tensor | Sequence[int] | None = None) -> Tensor:
        """Decode images.

        Args:
            index: indices of the images to decode; None decodes all of them.

        Returns:
            The decoded images, ``(N, 3, H, W)`` uint8.
        """
        numbers = range(len(self)) if index is None else torch.as_tensor(index).tolist()
        return decode_all([self.files[number] for number in numbers])

    @cached_property
    def train(self) -> Split:
        """The DevTrain people's images, labels counted from 0 (decoded once, on first use)."""
        return self._split(self.train_index)

    @cached_property
    def test(self) -> Split:
        """The DevTest people's images, labels counted from 0 (decoded once, on first use)."""
        return self._split(self.test_index)

    @cached_property
    def open_set(self) -> Dataset:
        """DevTrain people for training, DevTest people for evaluation."""
        return Dataset(self.name, self.train, self.test)

    def _split(self, index: Tensor) -> Split:
        members, labels = self.labels[index].unique(return_inverse=True)
        return Split(self.images(index), labels, tuple(self.people[member] for member in members.tolist()))


def lfw(store: Store) -> Faces:
    """Read ``lfw/<person>/<person>_0001.jpg`` and the lists, which lie in that folder or beside it."""
    _, folder = store.locate(LFW)
    lists = {name: _lines(store, folder, name, md5) for name, md5 in LISTS.items()}
    files = tuple(sorted(folder.glob("*/*.jpg")))
    people = tuple(sorted({path.parent.name for path in files}))
    number = {name: label for label, name in enumerate(people)}
    labels = torch.tensor([number[path.parent.name] for path in files], dtype=torch.int64)
    place = {path.stem: position for position, path in enumerate(files)}

    def members(name: str) -> Tensor:
        wanted = torch.zeros(max(len(people), 1), dtype=torch.bool)
        for line in lists[name][1:]:
            if line[0] not in number:
                raise FileNotFoundError(f"{name} names {line[0]}, but there is no folder {folder / line[0]}")
            wanted[number[line[0]]] = True
        return wanted[labels].nonzero().squeeze(1)

    def pairs(name: str) -> Pairs:
        return _pairs(lists[name], name, folder, place)

    return Faces(
        name=store.name,
        files=files,
        labels=labels,
        people=people,
        pairs=pairs("pairs.txt"),
        train_pairs=pairs("pairsDevTrain.txt"),
        test_pairs=pairs("pairsDevTest.txt"),
        train_index=members("peopleDevTrain.txt"),
        test_index=members("peopleDevTest.txt"),
    )


def _lines(store: Store, folder: Path, name: str, md5: str) -> list[list[str]]:
    path = next(path for path in (folder / name, folder.parent / name) if path.is_file())
    return [line.split() for line in store.read(path, md5).decode().splitlines() if line.strip()]


def _pairs(lines: list[list[str]], name: str, folder: Path, place: dict[str, int]) -> Pairs:
    """A header ``[folds] count``, then for each fold ``count`` lines of the same person and ``count`` of two people."""
    header, body = [int(word) for word in lines[0]], lines[1:]
    count = header[-1]
    left: list[int] = []
    right: list[int] = []
    same = []
    for line in body:
        one, other = (line[0], line[1]), (line[-2] if len(line) == 4 else line[0], line[-1])
        for position, (person, number) in ((left, one), (right, other)):
            stem = f"{person}_{int(number):04d}"
            if stem not in place:
                raise FileNotFoundError(f"{name} names {folder / person / stem}.jpg, which is not there")
            position.append(place[stem])
        same.append(len(line) == 3)
    fold = torch.arange(len(body)) // (2 * count)
    return Pairs(torch.tensor(left), torch.tensor(right), torch.tensor(same), fold)
