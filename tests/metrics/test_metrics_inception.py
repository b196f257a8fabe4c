"""Inception score against a plain loop."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hypersphere.metrics import inception_score


def slow(logits, splits):
    """exp of the mean over images of Σ_y p(y|x)·(log p(y|x) − log p(y)), split by split."""
    rows = [[math.exp(v - max(row)) for v in row] for row in logits.tolist()]
    p = [[v / sum(row) for v in row] for row in rows]
    scores = []
    for part in np.array_split(np.arange(len(p)), splits):
        marginal = [sum(p[i][c] for i in part) / len(part) for c in range(len(p[0]))]
        kl = [sum(q * (math.log(q) - math.log(m)) for q, m in zip(p[i], marginal, strict=True) if q > 0) for i in part]
        scores.append(math.exp(sum(kl) / len(part)))
    return np.mean(scores), np.std(scores), scores


@pytest.mark.parametrize("splits", [1, 3, 10])
def test_value(splits):
    logits = 3 * torch.randn(53, 7, dtype=torch.float64)
    found = inception_score(logits, splits=splits)
    mean, std, scores = slow(logits, splits)
    assert found.score == pytest.approx(mean, rel=1e-12)
    assert found.std == pytest.approx(std, rel=1e-9, abs=1e-12)
    assert found.split_scores.tolist() == pytest.approx(scores, rel=1e-12)
    assert repr(found).startswith(f"InceptionResult(score={mean:.4f} ± ")


def test_bounds_are_reached():
    sure = 200 * torch.eye(5).repeat(4, 1)
    assert inception_score(sure, splits=4).score == pytest.approx(5.0)
    assert inception_score(sure[:1].expand(20, -1), splits=2).score == pytest.approx(1.0)
    assert inception_score(torch.zeros(20, 5), splits=2).score == pytest.approx(1.0)
    impossible = torch.full((4, 3), -torch.inf)
    impossible[:, 0] = 0.0
    assert inception_score(impossible, splits=1).score == pytest.approx(1.0)


@given(st.integers(1, 6), st.integers(2, 9), st.floats(0, 50), st.integers(0, 2**31))
@settings(deadline=None, max_examples=30)
def test_between_one_and_the_number_of_classes_whatever_is_added_to_a_row(splits, classes, scale, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(20, classes, generator=generator, dtype=torch.float64)
    found = inception_score(logits, splits=splits)
    assert 1 - 1e-9 <= found.score <= classes + 1e-9
    shifted = logits + torch.randn(20, 1, generator=generator, dtype=torch.float64)
    assert inception_score(shifted, splits=splits).score == pytest.approx(found.score, rel=1e-9)
    assert inception_score(logits.log_softmax(1), splits=splits).score == pytest.approx(found.score, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_precisions(dtype):
    logits = torch.randn(40, 6).to(dtype)
    assert inception_score(logits).score == pytest.approx(inception_score(logits.double()).score, rel=1e-12)


def test_bad_input():
    with pytest.raises(ValueError, match=r"two classes or more, not \(5, 1\)"):
        inception_score(torch.zeros(5, 1))
    with pytest.raises(ValueError, match="splits=10 of 1 images"):
        inception_score([[1.0, 2.0]])
    with pytest.raises(TypeError, match=r"floating, not torch\.int64"):
        inception_score(torch.zeros(20, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match="splits=10 of 9 images"):
        inception_score(torch.zeros(9, 3))
    with pytest.raises(ValueError, match="splits=0"):
        inception_score(torch.zeros(9, 3), splits=0)
    for wrong in (torch.nan, torch.inf, -torch.inf):
        with pytest.raises(ValueError, match="NaN or infinity"):
            inception_score(torch.full((10, 3), wrong))
