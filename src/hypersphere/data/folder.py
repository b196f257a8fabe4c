"""Image folders and ImageNet-style trees, decoded and cropped in worker processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler, default_collate

from .._core.checks import check_count
from .._core.modes import on_host
from ._random import check_per_class, epoch_key, shuffled, words
from ._store import PUT_THERE, Store
from .images import decode, to_tensor, window
from .listing import images_below, subfolders
from .loader import IGNORE
from .types import Splits

Key = tuple[int, int, int]  # image number, epoch key, position in the epoch


@dataclass(frozen=True, eq=False)
class ImageFolder:
    """Files of ``root/<class>/**``; classes and files in sorted order, labels from 0.

    Attributes:
        root: Folder that holds a folder for each class.
        files: Path of each image, ``root`` included.
        labels: Class index of each file, ``(N,)``.
        classes: Names of the classes: the subfolders.

    Example:
        >>> folder = hs.data.ImageFolder.scan("photos/train")
        >>> folder.classes, len(folder)
        (('cat', 'dog'), 8)
        >>> image, label = folder[0]
        >>> image.shape, image.dtype
        (torch.Size([3, 8, 8]), torch.uint8)
    """

    root: Path
    files: tuple[str, ...]
    labels: Tensor
    classes: tuple[str, ...]

    @classmethod
    @on_host()
    def scan(cls, root: str | Path, classes: tuple[str, ...] | None = None) -> ImageFolder:
        """List a folder.

        Args:
            root: a folder with one subfolder per class.
            classes: names of the classes; give those of a first folder for a second one, so that labels agree.

        Returns:
            The files and labels; nothing is decoded.
        """
        root = Path(root).expanduser()
        if not root.is_dir():
            raise FileNotFoundError(
                f"{root} is not a folder: an image folder holds one folder of images for each class"
            )
        found = tuple(subfolders(root))
        names = found if classes is None else classes
        if unknown := sorted(set(found) - set(names)):
            raise ValueError(f"{root} has classes that are not in the first folder: {', '.join(unknown[:5])}")
        files, labels = [], []
        for label, name in enumerate(names):
            for place, pictures in images_below(root / name):
                files += [os.path.join(place, file) for file in pictures]
                labels += [label] * len(pictures)
        if not files:
            raise FileNotFoundError(
                f"{root} has no images in class folders: expected {root / '<class>' / '<image>.jpg'}"
            )
        return cls(root, tuple(files), torch.tensor(labels), names)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        """One image as its file has it, ``(3, height, width)`` uint8, and its label."""
        return to_tensor(decode(Path(self.files[index]))), self.labels[index]

    def __repr__(self) -> str:
        return f"ImageFolder({str(self.root)!r}, {len(self)} images, {len(self.classes)} classes)"


@dataclass(frozen=True, eq=False)
class ImageTree(Splits):
    """A training and a test folder with the same numbering of classes.

    Attributes:
        name: Name of the data set, as in :func:`hypersphere.data.load`.
        train: The images to train on.
        test: The images to evaluate on; their classes may differ from those of training.

    Example:
        >>> tree = hs.data.ImageTree.scan("photos")
        >>> tree.classes, len(tree.test.files)
        (('cat', 'dog'), 4)
    """

    name: str
    train: ImageFolder
    test: ImageFolder

    @classmethod
    def scan(cls, root: str | Path, train: str = "train", test: str = "val", name: str | None = None) -> ImageTree:
        """List ``root/train/<class>`` and ``root/val/<class>``.

        Args:
            root: folder that holds ``train/<class>/`` and ``val/<class>/``.
            train: name of the training folder in it.
            test: name of the test folder in it.
            name: name of the set; None is that of the folder.

        Returns:
            The tree; nothing is decoded.
        """
        root = Path(root).expanduser()
        first = ImageFolder.scan(root / train)
        return cls(name or root.name, first, ImageFolder.scan(root / test, first.classes))


def imagenet(store: Store) -> ImageTree:
    """ImageNet-2012 as ``imagenet/train/<wnid>/*.JPEG`` and ``imagenet/val/<wnid>/*.JPEG``."""
    for folder in (store.root / "imagenet", store.root):
        if (folder / "train").is_dir() and (folder / "val").is_dir():
            return ImageTree.scan(folder, name=store.name)
    raise FileNotFoundError(
        f"data set {store.name!r} is not in {store.root}: image-net.org asks for an account.\n"
        f"  folder:  {store.root / 'imagenet'}\n  holding: train/<wnid>/*.JPEG and val/<wnid>/*.JPEG\n"
        f"{PUT_THERE}"
    )


class FolderLoader:
    """uint8 batches ``(B, 3, height, width)`` of an :class:`ImageFolder`, made by worker processes.

    The minimum augmentation of thesis B.2: every image is resized (bilinear); for training a random window is cut and
    mirrored left-right with probability ½, for testing the central window is taken and the order is that of the files.
    Each image's window is a function of ``(seed, epoch, position)``: neither the number of workers nor resuming changes
    it.

    Args:
        folder: the images, an :class:`ImageFolder`; they are decoded when a batch needs them.
        batch_size: images of a batch, of all processes together.
        train: shuffle and augment; False takes the files in order and the central window.
        size: height and width of the window. None takes the images as they are, e.g. aligned faces: all must have the
            height and width of the first (``loader.shape``).
        resize: height and width that images are resized to before the window is cut.
        hflip: mirror left-right with probability ½ in training.
        workers: number of processes that decode images; 0 decodes in this process. It does not change the batches.
        seed: seed of the order, the random windows and the flips; the same seed gives the same batches.
        rank: number of this process, 0 to world − 1.
        world: number of processes that share every batch.
        drop_last: leave out a last batch that is not full; None is ``train``.
        pin_memory: put batches in page-locked memory, from which copies to a GPU are faster.
        per_class: K; a shuffled epoch then takes groups of K images of one class, as in :class:`Loader`.

    Raises:
        ValueError: If ``resize`` is smaller than ``size``, or ``batch_size`` is larger than the set or not a multiple
            of ``world``.
        TypeError: If ``folder`` is a whole data set, or a split in memory.

    Example:
        >>> folder = hs.data.ImageFolder.scan("photos/train")
        >>> loader = hs.data.FolderLoader(folder, batch_size=2, size=None, workers=0)
        >>> images, labels = next(loader.epoch(0))
        >>> images.shape
        torch.Size([2, 3, 8, 8])
    """

    def __init__(
        self,
        folder: ImageFolder,
        batch_size: int,
        *,
        train: bool = True,
        size: int | None = 224,
        resize: int = 256,
        hflip: bool = True,
        workers: int = 4,
        seed: int = 0,
        rank: int = 0,
        world: int = 1,
        drop_last: bool | None = None,
        pin_memory: bool = False,
        per_class: int = 1,
    ) -> None:
        if not isinstance(getattr(folder, "files", None), tuple):
            raise TypeError(
                f"folder must be files, such as the .train of load('folder', root), not {type(folder).__name__}: "
                "Loader reads samples in memory"
            )
        check_count("batch_size", batch_size)
        check_count("workers", workers, minimum=0)
        if size is not None and resize < check_count("size", size):
            raise ValueError(f"resize={resize} must be at least size={size}, the window that is cut from it")
        if batch_size % world or not 0 <= rank < world:
            raise ValueError(f"batch_size={batch_size} must be a multiple of world={world}, and rank={rank} below it")
        drop = train if drop_last is None else drop_last
        self.folder = folder
        self.steps = len(folder) // batch_size if drop else -(-len(folder) // batch_size)
        if self.steps == 0:
            raise ValueError(f"batch_size={batch_size} is more than the {len(folder)} images of {folder.root}")
        self.shape = _shape(folder.files[0]) if size is None else (size, size)
        groups = check_per_class(per_class, batch_size, folder.labels) if per_class != 1 else 1
        self._order = _Order(folder.labels, batch_size, self.steps, train, seed, rank, world, groups)
        self._loader: DataLoader[Any] = DataLoader(
            _Decoded(folder, train, self.shape, None if size is None else resize, train and hflip),
            batch_sampler=self._order,
            collate_fn=_collate,
            num_workers=workers,
            persistent_workers=workers > 0,
            pin_memory=pin_memory,
        )

    def __len__(self) -> int:
        return self.steps

    def epoch(self, epoch: int = 0, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        """Iterate over the batches of an epoch.

        Args:
            epoch: its number, from 0; it determines order and windows.
            start: step within the epoch to start at, for resuming; 0 is the beginning.

        Returns:
            Images and labels of each batch.
        """
        self._order.epoch, self._order.start = check_count("epoch", epoch, minimum=0), start
        try:
            for batch in _made_on_host(self._loader):
                if isinstance(batch, _Unreadable):
                    raise UnreadableImage(batch.file, batch.why)
                yield batch
        except RuntimeError as error:
            if "DataLoader worker" not in str(error):
                raise
            raise OSError(
                f"a process that decodes the images of {self.folder.root} was killed, mostly for want of memory: give "
                "the same command again with fewer --data.workers or a smaller --data.batch-size"
            ) from error

    def filled(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Iterate over all batches of the first epoch; all processes get equally many batches, with equally many rows.

        Returns:
            Images and labels. With several processes the last batch is filled with black images of label -100.
        """
        left, rows = self.steps, self._order.local
        for images, labels in self.epoch(0):
            left -= 1
            yield self._fill(images, labels, rows)
        for _ in range(left):  # the last batch was too short to have rows for this process
            images = torch.zeros(0, 3, *self.shape, dtype=torch.uint8, device="cpu")
            yield self._fill(images, torch.zeros(0, dtype=torch.int64, device="cpu"), rows)

    def _fill(self, images: Tensor, labels: Tensor, rows: int) -> tuple[Tensor, Tensor]:
        missing = rows - len(labels) if rows < self._order.batch else 0
        if not missing:
            return images, labels
        images = torch.cat([images, images.new_zeros(missing, *images.shape[1:])])
        return images, torch.cat([labels, labels.new_full((missing,), IGNORE)])

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The batches of the epoch after the last one that was begun, as a ``DataLoader`` of torch shuffles anew."""
        return self.epoch(self._order.epoch + 1)


def _made_on_host(batches: Iterable[Any]) -> Iterator[Any]:
    """The batches of torch's loader, whose labels would else be made on the default device, also in its processes."""
    with on_host():
        made = iter(batches)
    while True:
        with on_host():
            batch = next(made, None)
        if batch is None:
            return
        yield batch


class UnreadableImage(ValueError):
    """An image of a batch cannot be read: ``file`` is its path, and ``why`` names it, too."""

    def __init__(self, file: str, why: str) -> None:
        super().__init__(file, why)
        self.file, self.why = file, why

    def __str__(self) -> str:
        return f"{self.why}; remove or replace this file"


@dataclass(frozen=True)
class _Unreadable:
    """What travels from a worker in the place of a batch with an image that cannot be read."""

    file: str
    why: str


def _collate(samples: list[tuple[Tensor, int] | _Unreadable]) -> Any:
    return next((one for one in samples if isinstance(one, _Unreadable)), None) or default_collate(samples)


class _Decoded(Dataset[tuple[Tensor, int] | _Unreadable]):
    """What runs in a worker: decode, resize and cut (or neither, if ``resize`` is None), mirror."""

    def __init__(
        self, folder: ImageFolder, train: bool, shape: tuple[int, int], resize: int | None, hflip: bool
    ) -> None:
        self.folder, self.train, self.shape, self.resize, self.hflip = folder, train, shape, resize, hflip

    def __getitem__(self, key: Key) -> tuple[Tensor, int] | _Unreadable:
        file = self.folder.files[key[0]]
        try:
            return self._sample(file, key)
        except (ValueError, OSError, MemoryError) as error:  # raised in a worker, it would come with its traceback
            told = str(error) or type(error).__name__
            return _Unreadable(file, told if file in told else f"{file} cannot be read: {told}")

    def _sample(self, file: str, key: Key) -> tuple[Tensor, int]:
        number, epoch, position = key
        pixels = self._whole(file) if self.resize is None else self._window(file, epoch, position, self.resize)
        if self.hflip and words(epoch, position, 2) & 1:
            pixels = pixels.flip(2)
        return pixels, int(self.folder.labels[number])

    def _window(self, file: str, epoch: int, position: int, resize: int) -> Tensor:
        size = self.shape[0]
        room = resize - size
        top = left = room // 2
        if self.train:
            top = words(epoch, position, 0) * (room + 1) >> 32
            left = words(epoch, position, 1) * (room + 1) >> 32
        return to_tensor(window(decode(Path(file)), resize, top, left, size, size))

    def _whole(self, file: str) -> Tensor:
        pixels = to_tensor(decode(Path(file)))
        if pixels.shape[1:] != self.shape:
            (height, width), (tall, wide) = pixels.shape[1:], self.shape
            raise ValueError(
                f"{file} is {height}×{width} pixels, but {self.folder.files[0]} is {tall}×{wide}: align and crop all "
                "images to one size"
            )
        return pixels


def _shape(file: str) -> tuple[int, int]:
    image = decode(Path(file))
    return image.height, image.width


class _Order(Sampler[list[Key]]):
    """Lists of keys, one a batch, of the epoch and from the step set last."""

    def __init__(
        self,
        labels: Tensor,
        batch: int,
        steps: int,
        train: bool,
        seed: int,
        rank: int,
        world: int,
        per_class: int,
    ) -> None:
        self.labels, self.batch, self.steps, self.train, self.seed = labels, batch, steps, train, seed
        self.per_class = per_class
        self.rank, self.local = rank, batch // world
        self.epoch, self.start = -1, 0

    def __len__(self) -> int:
        return self.steps - self.start

    def __iter__(self) -> Iterator[list[Key]]:
        key = epoch_key(self.seed, self.epoch)
        size = len(self.labels)
        order = torch.arange(size)
        if self.train:
            order = shuffled(torch.tensor(key), size, 3, self.labels, self.per_class)
        for step in range(self.start, self.steps):
            first = step * self.batch + self.rank * self.local
            numbers = order[first : min(first + self.local, size)].tolist()
            if numbers:
                yield [(number, key, first + place) for place, number in enumerate(numbers)]
