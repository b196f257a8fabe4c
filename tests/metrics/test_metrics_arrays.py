"""Metrics of arrays, lists and names agree with those of tensors."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere._core.arrays import as_tensor, label_numbers

X = np.random.default_rng(0).normal(size=(24, 4))
Y = np.arange(24) % 3
NAMES = [("ant", "bee", "cat")[i] for i in Y]
READERS = {"tensor": torch.as_tensor, "array": np.asarray, "list": lambda a: np.asarray(a).tolist()}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("labels", [Y, NAMES], ids=["numbers", "names"])
def test_the_same_of_any_array(read, labels):
    x, y = torch.from_numpy(X), torch.from_numpy(Y)
    given = labels if isinstance(labels, list) else read(labels)
    close = {"rtol": 1e-5, "atol": 1e-6, "check_dtype": False}
    torch.testing.assert_close(
        hs.metrics.angular_fisher_score(read(X), given), hs.metrics.angular_fisher_score(x, y), **close
    )
    assert hs.metrics.retrieval(read(X), given).recall == hs.metrics.retrieval(x, y).recall
    mine, theirs = (hs.metrics.classification(a, b) for a, b in ((read(X[:, :3]), given), (x[:, :3], y)))
    assert mine.accuracy == theirs.accuracy
    torch.testing.assert_close(hs.metrics.separation_distance(read(X)), hs.metrics.separation_distance(x), **close)
    scores, same = X[:, 0], X[:, 1] > 0
    assert hs.metrics.verification(read(scores), read(same), 3).accuracy == pytest.approx(
        hs.metrics.verification(torch.from_numpy(scores), torch.from_numpy(same), 3).accuracy
    )


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_what_metrics_return_takes_any_array_too(read):
    close = {"rtol": 1e-5, "atol": 1e-6, "check_dtype": False}
    components = hs.metrics.principal_components(X, 2)
    torch.testing.assert_close(components(read(X)), components(torch.from_numpy(X)), **close)
    pairs = SimpleNamespace(left=read(np.arange(12)), right=read(12 + np.arange(12)), same=read(np.arange(12) % 2))
    pairs.fold = read(np.arange(12) // 4)
    found = hs.metrics.verify_pairs(read(X), pairs, center=read(X.mean(0)))
    torch.testing.assert_close(
        found.tar_at(read(np.array([0.2, 0.5]))).tolist(), [found.tar_at(0.2), found.tar_at(0.5)]
    )
    other = hs.metrics.identification(X[:6], Y[:6], X[6:12], Y[6:12], distractors=read(X[12:]))
    assert other.tar_at(read(np.array([0.1, 0.5]))).tolist() == [other.tar_at(0.1), other.tar_at(0.5)]
    assert other.impostors == 6 * (4 + 12)


def test_arrays_that_torch_cannot_share():
    turned, y = X[::-1], Y[::-1]
    assert hs.metrics.separation_distance(turned) == hs.metrics.separation_distance(X)
    assert hs.metrics.retrieval(turned, y).map == pytest.approx(hs.metrics.retrieval(X, Y).map)
    corners = np.eye(4, dtype=int)  # whole numbers, also in a block of distractors
    found = [hs.metrics.identification(X, Y, distractors=d).scores for d in (corners, corners.astype(float)[::-1])]
    torch.testing.assert_close(*found)
    assert hs.metrics.verification(X[:, 0], X[:, 1] > 0, np.int64(3)).pairs == 24


def test_numbers_of_python_and_whole_numbers_are_not_rounded():
    same = [1, 1, 0, 0] * 3
    close = [0.5 + 1e-9, 0.5 + 2e-9, 0.5, 0.5 - 1e-9] * 3
    large = [16777217, 16777218, 16777216, 16777215] * 3  # float32 counts in steps of 2 here
    for scores in (close, np.array(close), large, np.array(large)):
        assert hs.metrics.verification(scores, same, folds=3).auc == 1.0
    assert as_tensor("x", [[0.1, 0.2]]).dtype == torch.float64
    assert as_tensor("x", [np.float32(0.1)]).dtype == torch.float32


def test_masked_entries_are_refused():
    scores = np.ma.array([0.9, 0.1, 0.8, 0.2], mask=[0, 1, 0, 0])
    with pytest.raises(ValueError, match="scores has 1 masked entries: leave them out first"):
        hs.metrics.verification(scores, [1, 0, 1, 0], 2)
    assert hs.metrics.verification(np.ma.array(scores.data), [1, 0, 1, 0], 2).auc == 1.0


def test_rates_of_any_kind_are_the_same():
    """7 of 10 are a rate of 0.7, whatever it is written in."""
    result = hs.metrics.verification(torch.arange(20.0), torch.arange(20) % 2, 2)
    single = torch.tensor(0.7)
    for far in (Fraction(7, 10), [0.7], (0.7,), np.float32(0.7), np.array([0.7]), single, [single]):
        assert float(result.tar_at(far)) == result.tar_at(0.7) == 0.8
    assert result.tar_at(np.array([0, 1])).tolist() == [0.1, 1.0]


def test_words_are_no_booleans_and_no_rows():
    """Numbered in order, "genuine" would be 0 and "impostor" 1."""
    with pytest.raises(TypeError, match="same is not a tensor or array of numbers"):
        hs.metrics.verification([0.9, 0.3, 0.8, 0.1], ["genuine", "impostor"] * 2, 2)
    with pytest.raises(TypeError, match="left is not a tensor or array of numbers"):
        hs.metrics.pair_scores(X, ["ant"], ["bee"])


def test_names_of_probes_and_gallery_share_their_numbers():
    probes, gallery = X[:6], X[6:12]
    result = hs.metrics.identification(probes, NAMES[:6], gallery, NAMES[6:12])
    wanted = hs.metrics.identification(*(torch.from_numpy(v) for v in (probes, Y[:6], gallery, Y[6:12])))
    assert result.rank(1) == wanted.rank(1)


def test_classes_order_the_names():
    logits = [[5.0, 0.0], [0.0, 5.0]]
    assert hs.metrics.classification(logits, ["dog", "cat"], classes=["dog", "cat"]).accuracy == 1
    assert hs.metrics.classification(logits, ["dog", "cat"]).accuracy == 0  # sorted: cat is column 0
    with pytest.raises(ValueError, match="classes has 2 names for logits of 3"):  # which of the three is missing?
        hs.metrics.classification(np.eye(3), ["dog", "cat", "dog"])
    for measure in (hs.metrics.angular_visual_hardness, lambda x, w, y: hs.metrics.cosine_confusion(x, y, w)):
        with pytest.raises(ValueError, match="labels name 2 classes, weight has 3"):
            measure(np.eye(3), np.eye(3), ["dog", "cat", "dog"])
    assert hs.metrics.classification(logits, ["dog", "cat"]).classes == ("cat", "dog")
    with pytest.raises(ValueError, match="'cow' is not one of classes"):
        hs.metrics.classification(logits, ["dog", "cow"], classes=["dog", "cat"])


def test_an_argument_that_is_not_an_array_is_named():
    with pytest.raises(TypeError, match="w is not a tensor or array"):
        hs.metrics.uniformity("rows")
    assert as_tensor("x", [torch.zeros(2), torch.ones(2)]).shape == (2, 2)
    numbers, names = label_numbers(None, np.array(["b", "a"]))
    assert numbers[0] is None
    assert names == ["a", "b"]
    assert numbers[1].tolist() == [1, 0]


def test_functional_stays_with_tensors():
    with pytest.raises(TypeError):
        hs.functional.energy(X)
