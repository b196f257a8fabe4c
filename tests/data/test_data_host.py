"""Readers and loaders make their tensors in main memory, also where another device is torch's default.

That device is meta, whose tensors hold no numbers: what is made there by mistake is noticed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import synthetic_data as synthetic
import synthetic_faces
import torch
from torch import Tensor

from hypersphere import data, models


@contextmanager
def default_device() -> Iterator[None]:
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


ELSEWHERE = {"set_default_device": default_device, "with": lambda: torch.device("meta")}


def tensors(part: Any, name: str = "") -> dict[str, Tensor]:
    """All tensors of a data set, by their place in it."""
    if isinstance(part, Tensor):
        return {name: part}
    inner = {}
    if dataclasses.is_dataclass(part):
        inner = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    elif isinstance(part, dict):
        inner = part
    return {place: found for key, value in inner.items() for place, found in tensors(value, f"{name}.{key}").items()}


SETS = {
    "cifar10": synthetic.write_cifar10,
    "cifar100": synthetic.write_cifar100,
    "mnist": lambda root: synthetic.write_mnist(root / "MNIST" / "raw"),
    "lfw": synthetic.write_lfw,
    "omniglot": lambda root: synthetic.write_omniglot(root, root / "packed"),
    "modelnet40": lambda root: synthetic.write_modelnet(root, points=1024),
    "cora": synthetic.write_planetoid,
    "imagenet": lambda root: synthetic.write_tree(root / "imagenet"),
    "casia": synthetic_faces.write_casia,
    "ytf": synthetic_faces.write_ytf,
    "megaface": synthetic_faces.write_megaface,
    "folder": lambda root: synthetic_faces.write_casia(root).rename(root / "train.all"),
    "digits": lambda root: None,
}


@pytest.mark.parametrize("where", ELSEWHERE.values(), ids=ELSEWHERE)
@pytest.mark.parametrize("name", SETS)
def test_what_is_read_is_in_main_memory(tmp_path: Path, name: str, where: Any) -> None:
    SETS[name](tmp_path)
    expected = tensors(data.load(name, tmp_path, verify=False, download=False))
    with where():
        assert data.available(name, tmp_path)
        found = tensors(data.load(name, tmp_path, verify=False, download=False))
        assert torch.empty(1).is_meta  # outside of the readers all is as it was
    assert found.keys() == expected.keys()
    assert len(found) > 0
    for place, tensor in found.items():
        torch.testing.assert_close(tensor, expected[place], rtol=0, atol=0, msg=lambda text, place=place: place + text)


@pytest.mark.parametrize("where", ELSEWHERE.values(), ids=ELSEWHERE)
def test_images_that_are_decoded_later(tmp_path: Path, where: Any) -> None:
    synthetic.write_lfw(tmp_path)
    synthetic_faces.write_casia(tmp_path / "own")
    expected = data.load("lfw", tmp_path, verify=False).train
    with where():
        faces = data.load("lfw", tmp_path, verify=False)
        torch.testing.assert_close(faces.train.images, expected.images)
        torch.testing.assert_close(faces.train.labels, expected.labels)
        torch.testing.assert_close(faces.images(faces.train_index), expected.images)
        own = data.load("folder", tmp_path / "own" / "casia-webface")
        assert tensors(own.resident(8)).keys() >= {".train.images", ".test.labels"}
        assert all(not tensor.is_meta for tensor in tensors(own.resident(8)).values())
        assert not data.load("digits", imbalance={1: 5}).train.labels.is_meta


@pytest.mark.parametrize("where", ELSEWHERE.values(), ids=ELSEWHERE)
@pytest.mark.parametrize("workers", [0, 1])
def test_batches_of_files(tmp_path: Path, where: Any, workers: int) -> None:
    synthetic.write_tree(tmp_path / "imagenet")
    options = {"size": 8, "resize": 12, "seed": 4}

    def batches() -> list[tuple[Tensor, Tensor]]:
        folder = data.ImageFolder.scan(tmp_path / "imagenet" / "train")
        loader = data.FolderLoader(folder, 2, workers=workers, **options)
        second = data.FolderLoader(folder, 4, train=False, workers=workers, rank=1, world=2, **options)
        return [*loader.epoch(3), *second.filled()]

    expected = batches()
    with where():
        found = batches()
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("where", ELSEWHERE.values(), ids=ELSEWHERE)
def test_batches_of_a_set_in_memory_and_the_matrices_of_a_graph(tmp_path: Path, where: Any) -> None:
    synthetic.write_planetoid(tmp_path)

    def found() -> list[Any]:
        augment = data.Augment(hflip=True, pad=1)
        loader = data.Loader(data.load("digits").train, 64, augment=augment, normalize="standard", per_class=2)
        graph = data.load("cora", tmp_path, verify=False)
        matrix, x = graph.adjacency(), graph.normalized_features()
        again = models.normalize_adjacency(matrix)
        return [*next(loader.epoch(1)), matrix.to_dense(), x, again.to_dense(), net(x.to_sparse(), matrix)]

    net = models.create("gcn", 3, in_features=5).eval()
    expected = found()
    with where():
        torch.testing.assert_close(found(), expected)
