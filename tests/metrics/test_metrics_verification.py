"""Verification against scikit-learn and against loops written from the protocol."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as oracle

from hypersphere.metrics import verification, verification_split

# Few distinct scores: most of them are tied.
PAIRS = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=12, max_size=40).filter(
    lambda pairs: 4 <= sum(same for _, same in pairs) <= len(pairs) - 4
)


def drawn(count=400, shift=1.5, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    same = torch.rand(count, generator=generator) < 0.5
    scores = torch.randn(count, generator=generator, dtype=torch.float64) + shift * same
    return scores.to(dtype), same


def best_cut(scores, same):
    """Every cut between neighbouring scores, from the lowest: the first with the most right."""
    values = sorted(set(scores))
    cuts = [-math.inf, *((a + b) / 2 for a, b in itertools.pairwise(values)), math.inf]
    right = [sum((s >= cut) == y for s, y in zip(scores, same, strict=True)) for cut in cuts]
    return cuts[right.index(max(right))]


def slow_verification(scores, same, fold):
    shares, cuts = [], []
    for held in sorted(set(fold)):
        rest = [i for i, f in enumerate(fold) if f != held]
        cut = best_cut([scores[i] for i in rest], [same[i] for i in rest])
        mine = [i for i, f in enumerate(fold) if f == held]
        shares.append(sum((scores[i] >= cut) == same[i] for i in mine) / len(mine))
        cuts.append(cut)
    mean = sum(shares) / len(shares)
    deviation = math.sqrt(sum((s - mean) ** 2 for s in shares) / (len(shares) - 1))
    return mean, deviation / math.sqrt(len(shares)), shares, cuts


def slow_tar(scores, same, far):
    """The best true accept rate over all thresholds with a false accept rate of at most far."""
    best = 0.0
    for cut in [*set(scores), math.inf]:
        false = sum(s >= cut for s, y in zip(scores, same, strict=True) if not y) / same.count(False)
        true = sum(s >= cut for s, y in zip(scores, same, strict=True) if y) / same.count(True)
        best = max(best, true) if false <= far else best
    return best


@pytest.mark.parametrize("digits", [8, 1, 0])
def test_ten_folds_by_hand(digits):
    scores, same = drawn()
    scores = (scores * 10**digits).round() / 10**digits  # with few digits: many ties
    found = verification(scores, same)
    fold = [i // 40 for i in range(400)]
    mean, error, shares, cuts = slow_verification(scores.tolist(), same.tolist(), fold)
    assert found.accuracy == pytest.approx(mean, abs=1e-12)
    assert found.std == pytest.approx(error, abs=1e-12)
    assert found.fold_accuracies.tolist() == pytest.approx(shares, abs=1e-12)
    assert found.thresholds.tolist() == pytest.approx(cuts, abs=1e-12)
    assert found.pairs == 400


def test_fold_numbers_and_consecutive_folds_agree():
    scores, same = drawn(103)
    numbers = torch.tensor([0] * 26 + [1] * 26 + [2] * 26 + [3] * 25)  # sizes differ by one
    assert verification(scores, same, 7 * numbers - 3).accuracy == verification(scores, same, 4).accuracy
    order = torch.randperm(103)
    fold = torch.arange(103) % 5
    one, other = verification(scores, same, fold), verification(scores[order], same[order], fold[order])
    assert one.accuracy == pytest.approx(other.accuracy, abs=1e-15)
    assert one.thresholds.tolist() == other.thresholds.tolist()


@given(PAIRS)
@settings(deadline=None, max_examples=30)
def test_curve_area_and_rates_under_ties(pairs):
    scores, same = [float(s) for s, _ in pairs], [y for _, y in pairs]
    fold = torch.tensor([0, 1] * 20)[: len(pairs)]
    halves = [{same[i] for i in range(len(pairs)) if fold[i] == f} for f in (0, 1)]
    if any(len(half) < 2 for half in halves):
        return
    found = verification(torch.tensor(scores), torch.tensor(same), fold)
    fpr, tpr, cuts = oracle.roc_curve(same, scores, drop_intermediate=False)
    np.testing.assert_allclose(found.roc.fpr, fpr)
    np.testing.assert_allclose(found.roc.tpr, tpr)
    np.testing.assert_array_equal(found.roc.thresholds, cuts)
    assert found.auc == pytest.approx(oracle.roc_auc_score(same, scores), abs=1e-12)
    for far in (0.0, 0.1, 0.25, 1 / 3, 0.5, 1.0):
        assert found.tar_at(far) == slow_tar(scores, same, far)
    assert found.tar_at(torch.tensor([[0.0, 0.25]], dtype=torch.float64)).tolist() == [
        [found.tar_at(0.0), found.tar_at(0.25)]
    ]
    assert found.eer == pytest.approx(slow_eer(fpr, tpr), abs=1e-9)
    assert found.accuracy == pytest.approx(slow_verification(scores, same, fold.tolist())[0], abs=1e-12)


def slow_eer(fpr, tpr):
    """The crossing of the straight lines between the points with fpr = 1 − tpr, by bisection along the curve."""

    def point(t):
        i = min(int(t), len(fpr) - 2)
        return tuple(a[i] + (t - i) * (a[i + 1] - a[i]) for a in (fpr, tpr))

    low, high = 0.0, float(len(fpr) - 1)
    for _ in range(100):
        middle = (low + high) / 2
        x, y = point(middle)
        low, high = (middle, high) if x < 1 - y else (low, middle)
    return point(high)[0]


def test_rates_at_the_counts_that_floats_write_down():
    """FAR 0.29 of 100 is 29 false accepts, though 0.29·100 < 29 in floating point."""
    kind = torch.arange(200) % 2 == 1
    found = verification(torch.arange(200) / 2, kind, torch.arange(200) % 4 // 2)  # 0 different, ½ same, 1 different
    for count in range(101):
        assert found.tar_at(count / 100) == min(1.0, (count + 1) / 100)
        assert found.tar_at(torch.tensor(count / 100)).item() == min(1.0, (count + 1) / 100)  # float32 too
    assert found.tar_at(0.001) == 0.01


def test_scores_on_any_monotone_scale_give_the_same():
    scores, same = drawn()
    plain, odd = verification(scores, same), verification(1e3 * scores.sinh() - 5, same)
    assert plain.fold_accuracies.tolist() == pytest.approx(odd.fold_accuracies.tolist(), abs=0.026)  # cut is a midpoint
    assert (plain.auc, plain.eer, plain.tar_at(0.01)) == (odd.auc, odd.eer, odd.tar_at(0.01))


def test_the_direction_of_scores_matters_and_perfection_is_one():
    same = torch.arange(40) % 2 == 0
    perfect = verification(same.float(), same)
    assert (perfect.accuracy, perfect.std, perfect.auc, perfect.eer) == (1, 0, 1, 0)
    assert perfect.tar_at(0.0) == 1
    assert perfect.thresholds.tolist() == [0.5] * 10
    wrong = verification(-same.float(), same)
    assert (wrong.auc, wrong.eer, wrong.tar_at(0.5)) == (0, 1, 0)
    constant = verification(torch.zeros(40), same)
    assert (constant.auc, constant.eer, constant.tar_at(0.99)) == (0.5, 0.5, 0)
    assert constant.accuracy == 0.5


def test_nothing_fits_between_neighbouring_floats():
    low = 1.0
    high = math.nextafter(low, 2)
    scores = torch.tensor([low, high] * 6, dtype=torch.float64)
    found = verification(scores, torch.arange(12) % 2 == 1, torch.arange(12) // 6)
    assert found.accuracy == 1
    assert found.thresholds.tolist() == [high, high]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_precisions(dtype):
    scores, same = drawn(dtype=dtype)
    assert verification(scores, same).auc == pytest.approx(oracle.roc_auc_score(same, scores.double()), abs=1e-12)
    assert verification(scores, same.long()).accuracy == verification(scores.double(), same).accuracy


def test_view_1():
    scores, same = drawn()
    found = verification_split(scores[:150], same[:150], scores[150:], same[150:])
    cut = best_cut(scores[:150].tolist(), same[:150].tolist())
    share = ((scores[150:] >= cut) == same[150:]).double().mean().item()
    assert found.thresholds.tolist() == pytest.approx([cut])
    assert found.accuracy == pytest.approx(share)
    assert found.std == pytest.approx(math.sqrt(share * (1 - share) / 250))
    assert found.auc == pytest.approx(oracle.roc_auc_score(same[150:], scores[150:]))


def test_bad_input():
    scores, same = drawn(40)
    nan = scores.clone()
    nan[7] = math.nan
    with pytest.raises(ValueError, match="first at position 7"):
        verification(nan, same)
    with pytest.raises(ValueError, match="same pairs only"):
        verification(scores, torch.ones(40, dtype=torch.bool))
    with pytest.raises(ValueError, match="different pairs only"):
        verification_split(scores, torch.zeros(40, dtype=torch.bool), scores, same)
    with pytest.raises(ValueError, match="empty"):
        verification(scores[:0], same[:0])
    with pytest.raises(ValueError, match="fewer than folds=10"):
        verification(scores[:9], torch.arange(9) % 2)
    with pytest.raises(ValueError, match="one value per pair"):
        verification(scores, same[:-1])
    with pytest.raises(ValueError, match=r"\(n,\)"):
        verification(scores[None], same)
    with pytest.raises(ValueError, match="other than 0 and 1"):
        verification(scores, torch.arange(40))
    with pytest.raises(ValueError, match="at least 2"):
        verification(scores, same, 1)
    with pytest.raises(ValueError, match="one fold"):
        verification(scores, same, torch.zeros(40, dtype=torch.int64))
    with pytest.raises(ValueError, match="40 fold numbers"):
        verification(scores, same, torch.arange(39))
    with pytest.raises(ValueError, match="without fold 0 all pairs are of the different kind"):
        verification(scores, torch.arange(40) < 20, 2)  # sorted by kind: consecutive folds hold one each
    with pytest.raises(TypeError, match="floating-point"):
        verification(scores.long(), same)
    with pytest.raises(TypeError, match=r"folds=2\.5 must be an int"):
        verification(scores, same, 2.5)
    with pytest.raises(ValueError, match="rate in"):
        verification(scores, same).tar_at(1.5)
    with pytest.raises(TypeError, match="far"):
        verification(scores, same).tar_at("low")
