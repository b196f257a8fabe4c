"""``load`` a data set by its name, and what is known of the names."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, overload

from .._core.modes import on_host
from .._core.registries import DATASETS
from ._store import Store, default_root
from .faces import MegaFace, Videos
from .folder import ImageFolder, ImageTree
from .imbalance import imbalance as make_imbalanced
from .lfw import Faces
from .sets import Source
from .types import Dataset, Graph, PointClouds

ImageName = Literal["cifar10", "cifar100", "digits", "fashion_mnist", "mnist", "omniglot"]
GraphName = Literal["citeseer", "cora", "pubmed"]
PeopleName = Literal["casia", "imdb_face", "ms_celeb"]
TreeName = Literal["cub", "imagenet", "miniimagenet"]


@overload
def load(name: ImageName, root: str | Path | None = None, **options: Any) -> Dataset: ...
@overload
def load(name: GraphName, root: str | Path | None = None, **options: Any) -> Graph: ...
@overload
def load(name: Literal["lfw"], root: str | Path | None = None, **options: Any) -> Faces: ...
@overload
def load(name: Literal["modelnet40"], root: str | Path | None = None, **options: Any) -> PointClouds: ...
@overload
def load(name: TreeName, root: str | Path | None = None, **options: Any) -> ImageTree: ...
@overload
def load(name: PeopleName, root: str | Path | None = None, **options: Any) -> ImageFolder: ...
@overload
def load(name: Literal["ytf"], root: str | Path | None = None, **options: Any) -> Videos: ...
@overload
def load(name: Literal["megaface"], root: str | Path | None = None, **options: Any) -> MegaFace: ...
@overload
def load(name: str, root: str | Path | None = None, **options: Any) -> Any: ...
@on_host()
def load(
    name: str,
    root: str | Path | None = None,
    *,
    download: bool = True,
    verify: bool = True,
    progress: bool = True,
    mirror: str | None = None,
    imbalance: str | Mapping[int, int] | None = None,
    seed: int = 0,
    **options: Any,
) -> Any:
    """Read a data set from ``root``, else ``$HYPERSPHERE_DATA``, else the user's cache folder.

    The tensors are in main memory, also under ``torch.set_default_device``; a :class:`Loader` moves them.

    Args:
        name: one of :func:`list_datasets`, or ``package.module:function`` of a reader of your own, which is called with
            the folder and ``options``.
        root: folder that holds the set in its official layout.
        download: download missing files into ``root``. If that fails, the error says which files to put where.
        verify: compare checksums with those of the published files.
        progress: show a progress bar while downloading.
        mirror: address of a folder to fetch the published files from instead, ``https://...`` or ``file:///...``.
        imbalance: class-imbalance variant of the training split (:func:`imbalance`), drawn by ``seed``.
        seed: seed of the draw of ``imbalance``.
        **options: what only some data sets take. ``"modelnet40"``: ``points`` (points of a cloud, default 1024).
            ``"miniimagenet"`` and ``"cub"``: ``test`` (the folder of the unseen classes, ``"test"`` or ``"val"``).
            ``"folder"``: ``split`` (hold out images of every class, ``"image"``, or whole classes, ``"class"``),
            ``held_out`` (their share, default 0.2), ``split_seed`` (default 0), ``test`` (the folder of the test part),
            ``table`` (a CSV file with ``path,label`` and optionally ``split``), ``unreadable`` (``"skip"`` or
            ``"refuse"``) and ``check`` (how files are checked: ``"header"``, ``"full"`` or ``"none"``). A reader of
            your own gets all of them.

    Returns:
        A data set with ``train`` and ``test``: :class:`Dataset`, :class:`PointClouds`, :class:`ImageTree`,
        :class:`Faces`, :class:`Graph`, ... by its kind.

    Raises:
        ValueError: If no data set has that name, or a file is damaged.
        FileNotFoundError: If the files are missing and cannot be downloaded.

    Example:
        >>> digits = hs.data.load("digits")
        >>> digits.num_classes
        10
    """
    source = DATASETS.find(name, "name")
    place = default_root() if root is None else Path(root).expanduser()
    if isinstance(source, Source):
        store = Store(name, place, download=download, verify=verify, progress=progress, mirror=mirror)
        dataset = _read(source, store, options)
    else:
        dataset = source(place, **options)
    if imbalance is None:
        return dataset
    if not isinstance(dataset, Dataset):
        raise ValueError(f"imbalance={imbalance!r} is for image sets, and {name!r} is a {type(dataset).__name__}")
    return make_imbalanced(dataset, imbalance, seed=seed)


def _read(source: Source, store: Store, options: Mapping[str, Any]) -> Any:
    """What a reader of ours makes of the files; where it fails without naming one, the last one that it read."""
    try:
        return source.read(store, **options)
    except (FileNotFoundError, ImportError, PermissionError):
        raise
    except Exception as error:  # foreign bytes may be wrong in any way, above all those of verify=False
        told = str(error)
        if not store.files or (isinstance(error, ValueError) and str(store.files[-1].parent) in told):
            raise
        if isinstance(error, TypeError | ValueError) and any(f"{name}=" in told for name in options):
            raise
        reason = told.partition("\n")[0] or type(error).__name__
        raise ValueError(
            f"{store.files[-1]} does not hold what the data set {store.name!r} is made of ({reason}): delete it and "
            "load again"
        ) from error


def list_datasets(pattern: str = "*") -> list[str]:
    """List the data sets that :func:`load` knows.

    Args:
        pattern: shell pattern that the names must match, e.g. ``"cifar*"``; ``"*"`` lists all.

    Returns:
        The names that match, in alphabetical order.

    Example:
        >>> hs.data.list_datasets("cifar*")
        ['cifar10', 'cifar100']
    """
    return fnmatch.filter(sorted(DATASETS), pattern)


def describe(name: str) -> str:
    """Describe a data set in one line.

    Args:
        name: name of a data set, one of :func:`list_datasets`.

    Returns:
        One line that says what the data set is.

    Example:
        >>> hs.data.describe("cifar10")
        'CIFAR-10: 50,000 + 10,000 colour images 32×32, 10 classes'
    """
    return DATASETS.entry(name, "name").about


@on_host()
def available(name: str, root: str | Path | None = None, **options: Any) -> bool:
    """Say whether :func:`load` would find the files without a download; their content is not checked.

    Args:
        name: name of a data set, one of :func:`list_datasets`.
        root: folder of the set, as in :func:`load`.
        **options: options of the set, as in :func:`load`, where its files depend on them: ``table`` of ``"folder"``.

    Returns:
        True if all files of the data set are in the folder.

    Example:
        >>> hs.data.available("cifar10", "an/empty/folder")
        False
    """
    source = DATASETS.find(name, "name")
    place = default_root() if root is None else Path(root).expanduser()
    store = Store(name, place, download=False)
    if isinstance(source, Source) and source.layouts:
        return store.find(source.layouts) is not None
    try:
        source.read(store, **options) if isinstance(source, Source) else source(place, **options)
    except (FileNotFoundError, ImportError):
        return False
    return True
