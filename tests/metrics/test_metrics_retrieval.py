"""Retrieval against scikit-learn's average precision and against sorted lists."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score

from hypersphere.metrics import _inputs, retrieval


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_query(scores, relevant):
    """AP@R, R-precision and rank of the first hit from the ranking, irrelevant items first among equals."""
    ranking = [hit for _, hit in sorted(zip(scores, relevant, strict=True), key=lambda pair: (-pair[0], pair[1]))]
    total = sum(relevant)
    precision = [sum(ranking[: i + 1]) / (i + 1) for i in range(len(ranking))]
    at_r = sum(p for p, hit in zip(precision[:total], ranking, strict=False) if hit) / total
    return at_r, sum(ranking[:total]) / total, 1 + ranking.index(True)


def check(found, cosines, relevant):
    """``cosines`` and ``relevant`` (Q, N); NaN cosines are left out."""
    expected = []
    for row, hits in zip(cosines, relevant, strict=True):
        kept = ~np.isnan(row)
        if hits[kept].any():
            rest = slow_query(row[kept].tolist(), hits[kept].tolist())
            expected.append((average_precision_score(hits[kept], row[kept]), *rest))
    precision, at_r, share, first = (list(column) for column in zip(*expected, strict=True))
    assert found.average_precisions.tolist() == pytest.approx(precision)
    assert found.average_precisions_at_r.tolist() == pytest.approx(at_r)
    assert found.r_precisions.tolist() == pytest.approx(share)
    assert found.first_hits.tolist() == first
    assert found.map == pytest.approx(np.mean(precision))
    assert found.map_at_r == pytest.approx(np.mean(at_r))
    assert found.r_precision == pytest.approx(np.mean(share))
    for k in (1, 2, 3, 100):
        assert found.recall_at(k) == pytest.approx(np.mean([rank <= k for rank in first]))
    assert found.excluded + len(found.queries) == len(cosines)


def matrix(queries, items):
    queries, items = np.asarray(queries), np.asarray(items)
    return queries @ items.T / np.linalg.norm(queries, axis=1)[:, None] / np.linalg.norm(items, axis=1)


@pytest.mark.parametrize("entries", [1, 150, 2**24])
def test_each_item_queries_the_others(entries, monkeypatch):
    monkeypatch.setattr(_inputs, "_ENTRIES", entries)  # one row at a time, a few, all
    labels = torch.tensor([0] * 9 + [1] * 20 + [2] * 2 + [7] * 30 + [8, 9])
    x = drawn(63, 6) + drawn(10, 6, seed=1)[labels]
    cosines = matrix(x, x)
    np.fill_diagonal(cosines, np.nan)
    found = retrieval(x, labels, ks=(1, 4))
    check(found, cosines, (labels[:, None] == labels).numpy())
    assert found.excluded == 2  # the two single members
    assert found.queries.tolist() == list(range(61))
    assert found.recall == {1: found.recall_at(1), 4: found.recall_at(4)}


def test_separate_queries():
    labels, asked = torch.arange(40) % 7, torch.tensor([0, 3, 3, 6, 50, 1])
    x, queries = drawn(40, 5), drawn(6, 5, seed=1)
    found = retrieval(x, labels, queries=queries, query_labels=asked)
    check(found, matrix(queries, x), (asked[:, None] == labels).numpy())
    assert found.excluded == 1
    assert found.queries.tolist() == [0, 1, 2, 3, 5]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=4, max_size=24))
@settings(deadline=None, max_examples=30)
def test_ties(rows):
    """Features along few axes: cosines are 0 or 1, so nearly everything is tied."""
    axes, labels = torch.tensor([a for a, _ in rows]), torch.tensor([y for _, y in rows])
    if not any(count > 1 for count in labels.bincount()):
        return
    cosines = (axes[:, None] == axes).double().numpy()
    np.fill_diagonal(cosines, np.nan)
    check(retrieval(torch.eye(4)[axes], labels), cosines, (labels[:, None] == labels).numpy())


def test_perfect_and_hopeless():
    labels = torch.arange(12) % 3
    perfect = retrieval(torch.eye(3)[labels], labels)
    assert (perfect.map, perfect.map_at_r, perfect.r_precision, perfect.recall_at(1)) == (1, 1, 1, 1)
    constant = retrieval(torch.full((12, 33), 0.3), labels)
    assert constant.map == pytest.approx(3 / 11)  # chance: 3 relevant of 11
    assert (constant.map_at_r, constant.recall_at(8), constant.recall_at(9)) == (0, 0, 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_precisions(dtype):
    labels = torch.arange(60) % 6
    x = (drawn(60, 16) + drawn(6, 16, seed=1)[labels]).to(dtype)
    exact = retrieval(x.double(), labels)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = retrieval(x, labels)
    assert found.map == pytest.approx(exact.map, abs=1e-6)
    assert retrieval(x.float() * 1e30, labels).map == pytest.approx(exact.map, abs=1e-6)


def test_bad_input():
    x, labels = drawn(6, 4), torch.arange(6) % 2
    nan = x.clone()
    nan[2, 2] = math.inf
    with pytest.raises(ValueError, match="row 2"):
        retrieval(nan, labels)
    with pytest.raises(ValueError, match="no query has a relevant item"):
        retrieval(x, torch.arange(6))
    with pytest.raises(ValueError, match="no query has a relevant item"):
        retrieval(x, labels, queries=x, query_labels=labels + 5)
    with pytest.raises(ValueError, match="queries has dimension 3"):
        retrieval(x, labels, queries=x[:, :3], query_labels=labels)
    with pytest.raises(ValueError, match="query_labels are missing"):
        retrieval(x, labels, queries=x)
    with pytest.raises(ValueError, match="without queries"):
        retrieval(x, labels, query_labels=labels)
    with pytest.raises(ValueError, match="class numbers"):
        retrieval(x, labels.float())
    with pytest.raises(ValueError, match="features is empty"):
        retrieval(x[:0], labels[:0])
    with pytest.raises(TypeError, match="floating-point"):
        retrieval(x.long(), labels)
    with pytest.raises(ValueError, match="ks=0"):
        retrieval(x, labels, ks=(0,))
