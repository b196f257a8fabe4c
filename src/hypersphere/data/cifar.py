"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009): 50,000 + 10,000 images of 32×32 in the official Python pickles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ._download import Remote
from ._store import Layout, Store
from ._unpickle import Array, unpickle
from .types import Dataset, Split

# MD5 of the published files.
TRAIN10 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
}
TEST10 = {"test_batch": "40351d587109b95175f43aff81a1287e"}
TRAIN100 = {"train": "16019d7e3df5f24257cddd939b257f8d"}
TEST100 = {"test": "f0ef6b0ae62326f3e7ffdfab6717acfc"}

_SITE = "https://www.cs.toronto.edu/~kriz"
CIFAR10 = Layout(
    ("cifar-10-batches-py",),
    tuple((name,) for name in (*TRAIN10, *TEST10)),
    (Remote(f"{_SITE}/cifar-10-python.tar.gz", "", "c58f30108f718f92721af3b95e74349a", unpack=True),),
)
CIFAR100 = Layout(
    ("cifar-100-python",),
    (("train",), ("test",)),
    (Remote(f"{_SITE}/cifar-100-python.tar.gz", "", "eb9058c3a382ffc7106e4002c42a8d85", unpack=True),),
)

NAMES10 = "airplane automobile bird cat deer dog frog horse ship truck"
NAMES100 = """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
    caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
    flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
    motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
    poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
    squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
    wardrobe whale willow_tree wolf woman worm
"""


def cifar10(store: Store) -> Dataset:
    """Read ``cifar-10-batches-py/``."""
    _, folder = store.locate(CIFAR10)
    return Dataset(
        store.name,
        _split(store, folder, TRAIN10, "labels", tuple(NAMES10.split())),
        _split(store, folder, TEST10, "labels", tuple(NAMES10.split())),
    )


def cifar100(store: Store) -> Dataset:
    """Read ``cifar-100-python/``; ``split.extra["coarse"]`` holds the 20 superclasses."""
    _, folder = store.locate(CIFAR100)
    return Dataset(
        store.name,
        _split(store, folder, TRAIN100, "fine_labels", tuple(NAMES100.split())),
        _split(store, folder, TEST100, "fine_labels", tuple(NAMES100.split())),
    )


def _split(store: Store, folder: Path, files: dict[str, str], labels: str, classes: tuple[str, ...]) -> Split:
    parts, coarse = [], []
    for file, md5 in files.items():
        path = folder / file
        fields = _fields(unpickle(store.read(path, md5), str(path)), path, labels)
        pixels: Tensor = fields["data"].tensor()
        parts.append(Split(pixels.view(-1, 3, 32, 32), torch.tensor(fields[labels]), classes))  # it checks this file
        coarse.append(torch.tensor(fields.get("coarse_labels", ())))
    extra = {"coarse": torch.cat(coarse)} if coarse[0].numel() else {}
    images, targets = torch.cat([part.images for part in parts]), torch.cat([part.labels for part in parts])
    return Split(images, targets, classes, extra)


def _fields(content: Any, path: Path, labels: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}, not the table of a CIFAR batch")
    fields = {key.decode() if isinstance(key, bytes) else key: value for key, value in content.items()}
    if not isinstance(fields.get("data"), Array) or labels not in fields:
        raise ValueError(f"{path} has fields {sorted(fields)}, a CIFAR batch has 'data' and {labels!r}")
    return fields
