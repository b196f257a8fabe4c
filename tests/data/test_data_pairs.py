"""Pairs for verification: drawn, numbered in folds, and re-addressed within a selection."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersphere import data


@settings(deadline=None, max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=12, max_size=20),
    folds=st.integers(1, 3),
    each=st.integers(1, 4),
    seed=st.integers(0, 9),
)
def test_pairs_are_what_they_say(sizes, folds, each, seed):
    sizes = [*sizes, *[3] * (2 * folds * 4)]
    labels = torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes))
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))]
    pairs = data.make_pairs(labels, folds, each, seed)
    assert len(pairs) == 2 * folds * each
    assert torch.equal(labels[pairs.left] == labels[pairs.right], pairs.same)
    seen = [
        set(torch.cat([labels[p[pairs.fold == f]] for p in (pairs.left, pairs.right)]).tolist()) for f in range(folds)
    ]
    assert sum(map(len, seen)) == len(set().union(*seen))  # no class in two folds
    for fold in range(folds):
        chosen = pairs.fold == fold
        assert int(pairs.same[chosen].sum()) == each
        rows = {tuple(sorted(row)) for row in torch.stack([pairs.left, pairs.right], 1)[chosen].tolist()}
        assert len(rows) == 2 * each
        assert all(one != other for one, other in rows)
    again = data.make_pairs(labels.tolist(), folds, each, seed)
    assert torch.equal(again.left, pairs.left)
    assert torch.equal(again.right, pairs.right)


@pytest.mark.parametrize(
    ("labels", "folds", "each", "message"),
    [
        ([0, 0, 0], 1, 1, "1 classes with two images or more are too few for 1 folds"),
        ([0, 0, 1, 1], 1, 3, "only 2 different pairs of one class, not 3"),
        ([0, 0, 1, 1], 1, 0, "each"),
        ([0, 1, 2, 3], 1, 1, "0 classes with two images"),
    ],
)
def test_impossible_pairs_are_refused(labels, folds, each, message):
    with pytest.raises(ValueError, match=message):
        data.make_pairs(torch.tensor(labels), folds, each)


def test_every_possible_pair_can_be_drawn():
    pairs = data.make_pairs(torch.tensor([0, 0, 1, 1]), folds=1, each=2)
    assert {tuple(row) for row in torch.stack([pairs.left, pairs.right], 1)[pairs.same].tolist()} == {(0, 1), (2, 3)}


def test_positions_within_a_selection():
    pairs = data.Pairs(torch.tensor([5, 9]), torch.tensor([9, 7]), torch.tensor([True, False]), torch.tensor([0, 0]))
    inside = pairs.within(torch.tensor([2, 5, 7, 9]))
    assert inside.left.tolist() == [1, 3]
    assert inside.right.tolist() == [3, 2]
    with pytest.raises(ValueError, match="name image 7"):
        pairs.within(torch.tensor([2, 5, 9]))


def test_folds_share_both_kinds_evenly_and_stay_if_there_are_any():
    same = torch.tensor([True] * 10 + [False] * 20)
    one = data.Pairs(torch.zeros(30).long(), torch.ones(30).long(), same, torch.zeros(30).long())
    folded = one.folded(5)
    for fold in range(5):
        assert int((folded.same & (folded.fold == fold)).sum()) == 2
        assert int((~folded.same & (folded.fold == fold)).sum()) == 4
    assert folded.folded(3) is folded


def test_pairs_of_names_and_of_reversed_arrays():
    numbers = np.arange(24) % 6
    names = np.array(list("abcdef"))[numbers]
    wanted = data.make_pairs(torch.from_numpy(numbers), folds=2, each=3)
    for labels in (names, names.tolist(), numbers.tolist()):
        assert torch.equal(data.make_pairs(labels, folds=2, each=3).left, wanted.left)
    turned = data.make_pairs(numbers[::-1], folds=2, each=3)
    assert torch.equal(turned.left, data.make_pairs(numbers[::-1].tolist(), folds=2, each=3).left)
    with pytest.raises(ValueError, match=r"labels has shape \(2, 2\): pass one label for each image"):
        data.make_pairs([[0, 1], [1, 0]])
