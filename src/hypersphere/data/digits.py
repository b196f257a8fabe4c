"""scikit-learn's digits: 1,797 images of 8×8, the set that is always there."""

from __future__ import annotations

import functools
import gzip
import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from ._store import Store
from .types import Dataset, Split

EVERY = 5


def digits(store: Store) -> Dataset:
    """Sixteen grey levels become ``round(255·v/16)``.

    The split is fixed and needs no random numbers: of each class, in the order of the file, every fifth image is a test
    image. That gives 1,442 training and 355 test images with the classes in balance. Writers are not kept apart.
    """
    values, targets = _table()
    images = (values.view(-1, 1, 8, 8) * (255 / 16)).round().to(torch.uint8)
    rank = torch.empty_like(targets)
    for digit in range(10):
        member = targets == digit
        rank[member] = torch.arange(int(member.sum()))
    whole = Split(images, targets, tuple("0123456789"))
    test = rank % EVERY == EVERY - 1
    return Dataset(store.name, whole.subset(~test), whole.subset(test))


def _table() -> tuple[Tensor, Tensor]:
    """64 grey levels from 0 to 16 and the digit of every row.

    Read from scikit-learn's file: importing the library takes as long as importing torch.
    """
    spec = find_spec("sklearn") if sys.modules.get("sklearn", True) is not None else None
    if spec is None or spec.origin is None:
        raise ImportError("data set 'digits' comes with scikit-learn: pip install 'hypersphere[train]'")
    file = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    rows = _rows(file)
    return rows[:, :-1], rows[:, -1].long()


@functools.cache
def _rows(file: Path) -> Tensor:
    """Numbers as they stand in the file, which is read once in a process."""
    if file.exists():
        with gzip.open(file, "rt") as text:
            numbers = text.read().replace("\n", ",").rstrip(",").split(",")
        return torch.tensor([float(number) for number in numbers]).view(-1, 65)
    from sklearn.datasets import load_digits  # a release that keeps it elsewhere

    found = load_digits()
    return torch.tensor([[*row, digit] for row, digit in zip(found.data, found.target, strict=True)])
