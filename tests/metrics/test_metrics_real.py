"""The metrics on real images: digits that ship with scikit-learn, and pairs of LFW."""

import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from torch import nn

import hypersphere as hs


def digits():
    bunch = load_digits()
    return torch.tensor(bunch.data, dtype=torch.float64), torch.tensor(bunch.target)


def test_first_hits_are_the_nearest_neighbours():
    x, labels = digits()
    half = len(x) // 2
    found = hs.metrics.retrieval(x[:half], labels[:half], queries=x[half:], query_labels=labels[half:])
    knn = KNeighborsClassifier(1, metric="cosine").fit(x[:half], labels[:half])
    assert found.recall_at(1) == pytest.approx(knn.score(x[half:], labels[half:]))
    ranked = hs.metrics.identification(x[half:], labels[half:], x[:half], labels[:half])
    assert ranked.rank(1) == found.recall_at(1)
    assert ranked.rank(5) == found.recall_at(5)


def test_nearest_class_vector_is_the_nearest_centroid():
    x, labels = digits()
    unit = x / x.norm(dim=1, keepdim=True)
    centers = torch.stack([unit[labels == c].mean(0) for c in range(10)])
    logits = unit @ centers.T - centers.square().sum(1) / 2  # nearest centroid as a linear classifier
    expected = NearestCentroid().fit(unit, labels).score(unit, labels)
    found = hs.metrics.classification(logits, labels)
    assert found.accuracy == pytest.approx(expected)
    cosines = hs.metrics.cosine_confusion(x, labels)
    assert (cosines.argmax(1) == torch.arange(10)).all()


@pytest.mark.real_data("lfw")
def test_pixels_of_lfw():
    """Cosines of small pictures verify faces a little better than chance, as pixel baselines of LFW do."""
    faces = hs.data.load("lfw")
    chosen = faces.pairs.fold < 2
    left, right = faces.pairs.left[chosen], faces.pairs.right[chosen]
    files, place = torch.cat([left, right]).unique(return_inverse=True)
    pixels = nn.Sequential(nn.AdaptiveAvgPool2d(8), nn.Flatten())
    features = hs.embed(pixels, faces.images(files), flip=True)
    assert features.shape == (len(files), 2 * 3 * 8 * 8)
    pairs = hs.data.Pairs(place[: len(left)], place[len(left) :], faces.pairs.same[chosen], faces.pairs.fold[chosen])
    for center in (False, True):
        found = hs.metrics.verify_pairs(features, pairs, center=center)
        assert 0.54 < found.accuracy < 0.75
        assert found.pairs == 1200
        assert found.fold_accuracies.shape == (2,)
