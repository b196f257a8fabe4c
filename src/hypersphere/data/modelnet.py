"""ModelNet40 (Wu et al. 2015) as point clouds: 9,843 + 2,468 shapes of 40 classes.

Two layouts are read: ``modelnet40_ply_hdf5_2048/`` as published with PointNet (2,048 points, needs h5py), and two NumPy
files with 1,024 points each as int16 (``xyz·scale``, rounding error 1.6e-5).
"""

from __future__ import annotations

import importlib
import io
from pathlib import Path

import torch

from .._core.checks import check_count
from ._download import Remote
from ._store import Layout, Store
from .types import CloudSplit, PointClouds

# MD5 of the int16 files, which are this project's own.
PACKED = {
    "modelnet40_train_1024_int16.npz": "f4336547625672bb4865b50410c2050d",
    "modelnet40_test_1024_int16.npz": "9c0fa5f989a4a0357c431dfb4c8872ac",
}
LISTS = ("train_files.txt", "test_files.txt")
_SITE = "https://shapenet.cs.stanford.edu/media"
MODELNET40 = (
    Layout(
        ("modelnet40_ply_hdf5_2048", "modelnet40"),
        tuple((name,) for name in (*LISTS, "shape_names.txt")),
        (Remote(f"{_SITE}/modelnet40_ply_hdf5_2048.zip", "", unpack=True),),
    ),
    Layout(("modelnet40",), tuple((name,) for name in (*PACKED, "modelnet40_shape_names.txt"))),
)


def modelnet40(store: Store, points: int = 1024) -> PointClouds:
    """Read whichever layout is there and keep the first points of each cloud.

    Args:
        store: Where the files are.
        points: Number of points of each cloud that are kept, from the first; the packed files hold 1024.
    """
    check_count("points", points)
    layout, folder = store.locate(*MODELNET40)
    if layout == 0:
        classes = tuple(store.read(folder / "shape_names.txt").decode().split())
        train, test = (_published(folder, name, classes, points) for name in LISTS)
    else:
        classes = tuple(store.read(folder / "modelnet40_shape_names.txt").decode().split())
        train, test = (_packed(store, folder / name, md5, classes, points) for name, md5 in PACKED.items())
    return PointClouds(store.name, train, test)


def _packed(store: Store, path: Path, md5: str, classes: tuple[str, ...], points: int) -> CloudSplit:
    import numpy as np

    with np.load(io.BytesIO(store.read(path, md5)), allow_pickle=False) as fields:
        xyz, label, scale = (fields[name] for name in ("xyz", "label", "scale"))
    _check_points(path, points, xyz.shape[1])
    clouds = torch.from_numpy(xyz[:, :points]).float() * float(scale)
    return CloudSplit(clouds, torch.from_numpy(label).long(), classes)


def _published(folder: Path, listing: str, classes: tuple[str, ...], points: int) -> CloudSplit:
    try:
        h5py = importlib.import_module("h5py")
    except ImportError as error:
        raise ImportError(f"{folder} holds HDF5 files, which h5py reads: pip install h5py") from error
    clouds, labels = [], []
    for line in (folder / listing).read_text().split():
        path = folder / Path(line).name  # the lists name paths of the publisher's machine
        with h5py.File(path, "r") as fields:
            _check_points(path, points, fields["data"].shape[1])
            clouds.append(torch.as_tensor(fields["data"][:, :points]).float())
            labels.append(torch.as_tensor(fields["label"][:]).long().view(-1))
    return CloudSplit(torch.cat(clouds), torch.cat(labels), classes)


def _check_points(path: Path, wanted: int, there: int) -> None:
    if wanted > there:
        raise ValueError(f"points={wanted}, but the clouds in {path} have {there}")
