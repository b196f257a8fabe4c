"""scikit-learn's digits: 1,797 images of 8×8, the set that is always there."""

from __future__ import annotations

import torch

from ._store import Store
from .types import Dataset, Split

__all__ = ["digits"]

EVERY = 5


def digits(store: Store) -> Dataset:
    """Sixteen grey levels become ``round(255·v/16)``.

    The split is fixed and needs no random numbers: of each class, in the order of the file, every fifth image is a test
    image. That gives 1,442 training and 355 test images with the classes in balance. Writers are not kept apart.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("data set 'digits' comes with scikit-learn: pip install 'hypersphere[train]'") from error
    values, labels = load_digits(return_X_y=True)
    images = (torch.from_numpy(values).view(-1, 1, 8, 8) * (255 / 16)).round().to(torch.uint8)
    targets = torch.from_numpy(labels).long()
    rank = torch.empty_like(targets)
    for digit in range(10):
        member = targets == digit
        rank[member] = torch.arange(int(member.sum()))
    whole = Split(images, targets, tuple("0123456789"))
    test = rank % EVERY == EVERY - 1
    return Dataset(store.name, whole.subset(~test), whole.subset(test))
