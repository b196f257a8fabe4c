"""Classification against scikit-learn; cosine confusion against loops."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as oracle

from hypersphere.metrics import classification, cosine_confusion


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_against_scikit_learn():
    labels = torch.arange(300) % 9  # class 9 does not occur
    logits = drawn(300, 10) + 1.5 * torch.eye(10, dtype=torch.float64)[labels]
    found = classification(logits, labels)
    guess = logits.argmax(1)
    assert found.accuracy == pytest.approx(oracle.accuracy_score(labels, guess))
    assert found.top5 == pytest.approx(oracle.top_k_accuracy_score(labels, logits, k=5, labels=range(10)))
    assert found.top(3) == pytest.approx(oracle.top_k_accuracy_score(labels, logits, k=3, labels=range(10)))
    np.testing.assert_array_equal(found.confusion, oracle.confusion_matrix(labels, guess, labels=range(10)))
    recall = oracle.recall_score(labels, guess, labels=range(9), average=None)
    assert found.class_errors[:9].tolist() == pytest.approx(list(1 - recall))
    assert found.class_errors[9].isnan()
    assert found.balanced_accuracy == pytest.approx(recall.mean())
    assert found.counts.tolist() == [34, 34, 34] + [33] * 6 + [0]
    assert found.classes == tuple("0123456789")


@given(st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=4, max_size=4), st.integers(0, 3)), min_size=1))
@settings(deadline=None, max_examples=30)
def test_ties_go_to_the_lower_class(rows):
    logits, labels = torch.tensor([row for row, _ in rows]).float(), torch.tensor([label for _, label in rows])
    found = classification(logits, labels)
    for (row, label), rank in zip(rows, found.ranks.tolist(), strict=True):
        assert rank == 1 + sorted(range(4), key=lambda j: (-row[j], j)).index(label)
    assert found.accuracy == pytest.approx(float((logits.argmax(1) == labels).double().mean()))
    assert found.confusion.sum() == len(rows)
    assert found.top5 == 1


def test_worst_classes():
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    logits = torch.eye(4)[torch.tensor([0, 1, 1, 1, 0, 3])]
    found = classification(logits, labels, classes=["cat", "dog", "fox", "owl"])
    assert found.worst(2) == [("fox", 1.0, 2), ("cat", 0.5, 2)]
    assert [name for name, _, _ in found.worst(9)] == ["fox", "cat", "dog"]  # no owl was shown


def test_cosine_confusion_with_class_vectors():
    x, w, labels = drawn(20, 5), drawn(4, 5, seed=1), torch.arange(20) % 3
    found = cosine_confusion(x, labels, w)
    for i in range(3):
        for j in range(4):
            expected = [float(v @ w[j] / v.norm() / w[j].norm()) for v in x[labels == i]]
            assert found[i, j].item() == pytest.approx(sum(expected) / len(expected))
    assert found[3].isnan().all()


def test_cosine_confusion_with_class_means():
    x, labels = drawn(20, 5), torch.tensor([0, 1, 3, 3] * 5)
    found = cosine_confusion(x, labels)
    for i in (0, 1, 3):
        for j in (0, 1, 3):
            mean = x[labels == j].mean(0)
            expected = [float(v @ mean / v.norm() / mean.norm()) for v in x[labels == i]]
            assert found[i, j].item() == pytest.approx(sum(expected) / len(expected))
    assert found[2].isnan().all()
    assert found[:, 2].isnan().all()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = cosine_confusion(x.half(), labels)
    torch.testing.assert_close(
        half.double(), cosine_confusion(x.half().double(), labels), equal_nan=True, atol=1e-6, rtol=0
    )


def test_bad_input():
    logits, labels = drawn(6, 3), torch.arange(6) % 3
    nan = logits.clone()
    nan[1, 0] = math.nan
    with pytest.raises(ValueError, match=r"logits has NaN .* row 1"):
        classification(nan, labels)
    with pytest.raises(ValueError, match="logits have 3 classes"):
        classification(logits, labels + 1)
    with pytest.raises(ValueError, match="2 names for logits of 3"):
        classification(logits, labels, classes=["a", "b"])
    with pytest.raises(ValueError, match="empty"):
        classification(logits[:0], labels[:0])
    with pytest.raises(ValueError, match="6 class numbers"):
        classification(logits, labels[None])
    with pytest.raises(ValueError, match="weight has 2 classes"):
        cosine_confusion(logits, labels, logits[:2])
    with pytest.raises(ValueError, match="weight has dimension 2"):
        cosine_confusion(logits, labels, logits[:, :2])
    with pytest.raises(ValueError, match="pass 6 class numbers"):
        cosine_confusion(logits, [0, 1, 2])
