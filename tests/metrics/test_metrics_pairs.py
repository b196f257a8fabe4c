"""Pairs of embeddings: cosines, mean subtraction, LFW's two views in one call."""

import math
from dataclasses import dataclass

import pytest
import torch

from hypersphere.metrics import pair_scores, verification, verification_split, verify_pairs


@dataclass
class Pairs:
    left: torch.Tensor
    right: torch.Tensor
    same: torch.Tensor
    fold: torch.Tensor


def drawn(seed=0, people=12, each=6, dim=5):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(people).repeat_interleave(each)
    x = torch.randn(people, dim, generator=generator, dtype=torch.float64)[labels]
    x = x + 0.8 * torch.randn(len(labels), dim, generator=generator, dtype=torch.float64) + 2
    left, right = torch.randint(len(labels), (2, 600), generator=generator)
    right[::2] = left[::2] // each * each + (left[::2] + 1) % each
    return x, Pairs(left, right, labels[left] == labels[right], torch.arange(600) // 60)


def cosine(a, b):
    return sum(p * q for p, q in zip(a, b, strict=True)) / math.sqrt(sum(p * p for p in a) * sum(q * q for q in b))


def test_cosines_with_and_without_mean():
    x, pairs = drawn()
    mean = [float(column) for column in x[:20].mean(0)]
    expected = [cosine(x[i].tolist(), x[j].tolist()) for i, j in zip(pairs.left, pairs.right, strict=True)]
    torch.testing.assert_close(pair_scores(x, pairs.left, pairs.right), torch.tensor(expected, dtype=torch.float64))
    moved = [[a - m for a, m in zip(row, mean, strict=True)] for row in x.tolist()]
    expected = [cosine(moved[i], moved[j]) for i, j in zip(pairs.left, pairs.right, strict=True)]
    torch.testing.assert_close(
        pair_scores(x, pairs.left, pairs.right, x[:20].mean(0)), torch.tensor(expected, dtype=torch.float64)
    )


def test_view_2_is_verification_of_the_cosines():
    x, pairs = drawn()
    found = verify_pairs(x, pairs)
    expected = verification(pair_scores(x, pairs.left, pairs.right), pairs.same, pairs.fold)
    assert found.accuracy == expected.accuracy
    assert found.auc == expected.auc
    fixed = verify_pairs(x, pairs, center=x.mean(0))
    assert fixed.auc == verification(pair_scores(x, pairs.left, pairs.right, x.mean(0)), pairs.same).auc


def test_centering_uses_the_other_folds_alone():
    """SphereFace's evaluation: the mean over both sides of the pairs of the nine training folds."""
    x, pairs = drawn()
    found = verify_pairs(x, pairs, center=True)
    shares = []
    for fold in range(10):
        train, test = pairs.fold != fold, pairs.fold == fold
        named = torch.cat([pairs.left[train], pairs.right[train]])
        mean = sum(x[i] for i in named) / len(named)
        scores = pair_scores(x, pairs.left, pairs.right, mean)
        one = verification_split(scores[train], pairs.same[train], scores[test], pairs.same[test])
        shares.append(one.accuracy)
        assert found.thresholds[fold].item() == pytest.approx(one.thresholds.item())
    assert found.fold_accuracies.tolist() == shares
    assert found.auc != verify_pairs(x, pairs).auc  # these features have a large common mean


def test_view_1():
    x, pairs = drawn()
    train = Pairs(pairs.left[:240], pairs.right[:240], pairs.same[:240], pairs.fold[:240])
    test = Pairs(pairs.left[240:], pairs.right[240:], pairs.same[240:], pairs.fold[240:])
    scores = pair_scores(x, pairs.left, pairs.right)
    found = verify_pairs(x, test, train_pairs=train)
    expected = verification_split(scores[:240], train.same, scores[240:], test.same)
    assert (found.accuracy, found.thresholds.item()) == (expected.accuracy, expected.thresholds.item())
    mean = torch.cat([x[train.left], x[train.right]]).mean(0)
    scores = pair_scores(x, pairs.left, pairs.right, mean)
    found = verify_pairs(x, test, train_pairs=train, center=True)
    expected = verification_split(scores[:240], train.same, scores[240:], test.same)
    assert found.accuracy == expected.accuracy
    assert found.auc == pytest.approx(expected.auc)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    x, pairs = drawn()
    half = x.to(dtype)
    found = pair_scores(half, pairs.left, pairs.right)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, pair_scores(half.double(), pairs.left, pairs.right).float(), atol=1e-6, rtol=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = verify_pairs(half, pairs, center=True)
    assert inside.auc == pytest.approx(verify_pairs(half.double(), pairs, center=True).auc, abs=1e-4)


def test_scale_and_zero():
    x, pairs = drawn()
    scores = pair_scores(x, pairs.left, pairs.right)
    torch.testing.assert_close(pair_scores(x.float() * 1e30, pairs.left, pairs.right), scores.float())
    torch.testing.assert_close(pair_scores(x.float() * 1e-30, pairs.left, pairs.right), scores.float())
    x[0] = 0
    assert pair_scores(x, torch.tensor([0, 0]), torch.tensor([0, 1])).tolist() == [0, 0]


def test_bad_input():
    x, pairs = drawn()
    with pytest.raises(ValueError, match="names row 72, but there are 72"):
        pair_scores(x, torch.tensor([0]), torch.tensor([72]))
    with pytest.raises(ValueError, match="names row -1"):
        pair_scores(x, torch.tensor([-1]), torch.tensor([2]))
    with pytest.raises(ValueError, match="no pairs"):
        pair_scores(x, pairs.left[:0], pairs.right[:0])
    with pytest.raises(ValueError, match="one of each"):
        pair_scores(x, pairs.left, pairs.right[:-1])
    with pytest.raises(ValueError, match="dimension 5"):
        pair_scores(x, pairs.left, pairs.right, torch.zeros(4))
    with pytest.raises(ValueError, match="row numbers"):
        pair_scores(x, pairs.left.float(), pairs.right)
    bad = x.clone()
    bad[3, 1] = math.nan
    with pytest.raises(ValueError, match="first in row 3"):
        verify_pairs(bad, pairs)
    with pytest.raises(ValueError, match="both kinds"):
        verify_pairs(x, Pairs(pairs.left, pairs.right, pairs.same | True, pairs.fold))
    with pytest.raises(ValueError, match="two folds"):
        verify_pairs(x, Pairs(pairs.left, pairs.right, pairs.same, pairs.fold * 0))
