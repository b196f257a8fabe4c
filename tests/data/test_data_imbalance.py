"""Class-imbalance variants (thesis 5.5.1, D.1, D.8)."""

from __future__ import annotations

import pytest
import torch

from hypersphere import data


def balanced(classes: int, each: int) -> data.Dataset:
    labels = torch.arange(classes * each) % classes
    images = torch.arange(classes * each).view(-1, 1, 1, 1).expand(-1, 1, 1, 1).to(torch.uint8)
    split = data.Split(images, labels, tuple(map(str, range(classes))), {"number": torch.arange(classes * each)})
    return data.Dataset("x", split, split)


@pytest.mark.parametrize(
    ("classes", "each", "kind", "counts"),
    [
        (10, 5000, "single", [500] + [5000] * 9),
        (10, 5000, "multiple", [500 * (i + 1) for i in range(10)]),
        (100, 500, "single", [50] * 10 + [500] * 90),
        (100, 500, "multiple", [5 * (i + 1) for i in range(100)]),
        (10, 5923, "digit0", [100] + [5923] * 9),
    ],
)
def test_the_documents_counts(classes: int, each: int, kind: str, counts: list[int]) -> None:
    dataset = balanced(classes, each)
    made = data.imbalance(dataset, kind)
    assert made.train.counts.tolist() == counts
    assert list(data.imbalance_counts(dataset.train, kind).values()) == counts
    assert made.test is dataset.test


def test_the_choice_is_random_seeded_and_keeps_the_order() -> None:
    dataset = balanced(10, 50)
    one, again, other = (data.imbalance(dataset, {0: 20, 3: 0}, seed=seed).train for seed in (0, 0, 1))
    assert torch.equal(one.extra["number"], again.extra["number"])
    assert not torch.equal(one.extra["number"], other.extra["number"])
    assert torch.equal(one.extra["number"], one.extra["number"].sort().values)
    assert one.counts.tolist() == [20, 50, 50, 0, 50, 50, 50, 50, 50, 50]
    kept = one.extra["number"][one.labels == 0]
    assert len(kept.unique()) == 20
    assert kept.tolist() != list(range(0, 200, 10))  # not simply the first ones


def test_every_image_is_kept_equally_often() -> None:
    dataset = balanced(2, 10)
    counts = torch.zeros(20)
    for seed in range(400):
        counts[data.imbalance(dataset, {0: 5}, seed=seed).train.extra["number"]] += 1
    assert (counts[::2] - 200).abs().max() < 5 * 10
    assert (counts[1::2] == 400).all()


def test_through_load_and_bad_requests() -> None:
    digits = data.load("digits", imbalance="multiple", seed=3)
    full = data.load("digits")
    assert digits.train.counts.tolist() == [n * (i + 1) // 10 for i, n in enumerate(full.train.counts.tolist())]
    assert len(digits.test) == len(full.test)
    with pytest.raises(ValueError, match="imbalance='none' is unknown"):
        data.imbalance(full, "none")
    with pytest.raises(ValueError, match="keeps 11 images of class 10, which has 0 of 10 classes"):
        data.imbalance(full, {10: 11})
    with pytest.raises(ValueError, match="keeps 9999 images of class 1"):
        data.imbalance(full, {1: 9999})
    for wrong in ({"1": 5}, {1: 2.5}):
        with pytest.raises(TypeError, match="must be an int"):
            data.imbalance(full, wrong)
