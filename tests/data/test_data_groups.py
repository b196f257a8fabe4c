"""Batches in which the samples of a class stand together, for losses that compare samples."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersphere import data
from hypersphere.data._random import shuffled


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_there_are_as_many_groups_of_one_class_as_can_be(labels: list[int], per_class: int, key: int) -> None:
    y = torch.tensor(labels)
    order = shuffled(torch.tensor(key), len(labels), 3, y, per_class)
    assert order.sort().values.tolist() == list(range(len(labels)))
    groups = y[order][: len(labels) // per_class * per_class].view(-1, per_class)
    pure = int((groups == groups[:, :1]).all(1).sum())
    assert pure >= sum(labels.count(c) // per_class for c in set(labels))


def test_classes_with_few_samples_are_spread_evenly_over_the_epoch() -> None:
    y = torch.cat([torch.zeros(200, dtype=torch.int64), torch.arange(1, 201)])  # one class of 200, 200 of one sample
    places = torch.zeros(400)
    for key in range(50):
        places += (y[shuffled(torch.tensor(key), 400, 3, y, 4)] > 0).float()
    quarters = places.view(4, 100).mean(1) / 50
    assert bool((quarters > 0.4).all())
    assert bool((quarters < 0.6).all())


def test_groups_are_drawn_anew_and_all_pairs_meet() -> None:
    y = torch.arange(3).repeat(6)
    met = set()
    for key in range(300):
        order = shuffled(torch.tensor(key), len(y), 3, y, 2).view(-1, 2)
        met |= {tuple(sorted(pair)) for pair in order.tolist()}
    assert len(met) == 3 * 15
    first = [int(y[shuffled(torch.tensor(key), len(y), 3, y, 2)[0]]) for key in range(300)]
    assert min(first.count(c) for c in range(3)) > 60


def split(count: int = 32, classes: int = 4) -> data.Split:
    labels = torch.arange(count) % classes
    return data.Split(torch.arange(count, dtype=torch.uint8).view(-1, 1, 1, 1), labels, tuple("abcd"[:classes]))


@pytest.mark.parametrize("world", [1, 2])
def test_loader_batches_hold_groups(world: int) -> None:
    loaders = [
        data.Loader(split(), 8, per_class=4, normalize=None, seed=3, rank=rank, world=world) for rank in range(world)
    ]
    alone = data.Loader(split(), 8, per_class=4, normalize=None, seed=3)
    orders, seen = [], []
    for epoch in (0, 1):
        for loader in (*loaders, alone):
            loader.start_epoch(epoch)
        for step in range(len(alone)):
            parts = [loader.batch(step) for loader in loaders]
            images, labels = alone.batch(step)
            assert torch.equal(torch.cat([part[0] for part in parts]), images)
            groups = labels.view(-1, 4)
            assert bool((groups == groups[:, :1]).all())
            orders.append(images.flatten().tolist())
            seen += orders[-1] if epoch == 0 else []
    assert sorted(seen) == list(range(32))
    assert orders[0] != orders[len(alone)]


def test_folder_batches_hold_groups(tmp_path: Path) -> None:
    from PIL import Image

    for name in ("x", "y", "z"):
        (tmp_path / name).mkdir()
        for number in range(5):
            Image.new("RGB", (8, 8), (10 * number, 0, 0)).save(tmp_path / name / f"{number}.png")
    folder = data.ImageFolder.scan(tmp_path)
    loader = data.FolderLoader(folder, 4, size=None, workers=0, per_class=2)
    for _, labels in loader.epoch(0):
        groups = labels.view(-1, 2)
        assert bool((groups == groups[:, :1]).all())
    with pytest.raises(ValueError, match="per_class=3 must divide batch_size=4"):
        data.FolderLoader(folder, 4, size=None, workers=0, per_class=3)


def test_what_cannot_be_grouped_is_refused() -> None:
    with pytest.raises(ValueError, match="per_class=3 must divide batch_size=8"):
        data.Loader(split(), 8, per_class=3)
    with pytest.raises(ValueError, match="per_class=16, but no class has that many samples"):
        data.Loader(split(), 16, per_class=16)
    with pytest.raises(ValueError, match="per_class=0"):
        data.Loader(split(), 8, per_class=0)
