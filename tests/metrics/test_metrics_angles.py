import math

import numpy as np
import pytest
import torch

import hypersphere as hs
from hypersphere.metrics import (
    angular_fisher_score,
    angular_visual_hardness,
    covering_radius,
    separation_distance,
    uniformity,
)


def vectors(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def angle_of(a, b):
    return math.acos(float(a @ b) / math.sqrt(float(a @ a) * float(b @ b)))


def test_angular_visual_hardness():
    x, w, labels = vectors(5, 4), vectors(3, 4, seed=1), torch.tensor([0, 2, 1, 1, 0])
    expected = [angle_of(a, w[y]) / sum(angle_of(a, v) for v in w) for a, y in zip(x, labels, strict=True)]
    torch.testing.assert_close(angular_visual_hardness(x, w, labels), torch.tensor(expected, dtype=torch.float64))
    assert angular_visual_hardness(w, w, torch.arange(3)).max() < 1e-6  # on its own class vector: no hardness
    assert angular_visual_hardness(torch.eye(2)[:1], torch.eye(2)[[0, 0]], [1]) == 0.5  # all angles are 0
    assert angular_visual_hardness(x.bfloat16(), w.bfloat16(), labels).dtype == torch.float32
    with pytest.raises(ValueError, match="3 classes"):
        angular_visual_hardness(x, w, labels + 1)
    with pytest.raises(ValueError, match="must agree"):
        angular_visual_hardness(x, w[:, :3], labels)
    with pytest.raises(ValueError, match="pass 5 class numbers"):
        angular_visual_hardness(x, w, labels[:2])
    with pytest.raises(ValueError, match="features has NaN or infinite entries in 1 rows, first in row 1"):
        angular_visual_hardness(x.clone().index_fill_(0, torch.tensor([1]), torch.nan), w, labels)
    with pytest.raises(ValueError, match="weight has NaN or infinite entries"):
        angular_visual_hardness(x, w / 0, labels)
    assert angular_visual_hardness(x[:0], w, labels[:0]).shape == (0,)


def test_angular_fisher_score():
    x, labels = vectors(12, 3), torch.tensor([7, 7, 7, 2, 2, 2, 2, 5, 5, 5, 5, 5])
    mean, within, between = x.mean(0), 0.0, 0.0
    for label in (2, 5, 7):
        own = x[labels == label]
        center = own.mean(0)
        within += sum(1 - math.cos(angle_of(row, center)) for row in own)
        between += len(own) * (1 - math.cos(angle_of(center, mean)))
    assert angular_fisher_score(x, labels).item() == pytest.approx(within / between)
    tight = torch.eye(3, dtype=torch.float64)[torch.tensor([0, 0, 1, 1, 2, 2])]
    assert angular_fisher_score(tight, torch.tensor([0, 0, 1, 1, 2, 2])).item() == pytest.approx(0, abs=1e-12)
    for seed in range(4):  # one class: m_i = m, whatever a cosine's rounding says
        assert angular_fisher_score(vectors(50, 8, seed=seed).float(), torch.zeros(50, dtype=torch.int64)) == math.inf
    assert angular_fisher_score(torch.ones(4, 3), torch.tensor([0, 0, 1, 1])) == math.inf  # all has collapsed
    with pytest.raises(ValueError, match="empty"):
        angular_fisher_score(x[:0], labels[:0])
    with pytest.raises(ValueError, match="features has NaN or infinite entries"):
        angular_fisher_score(x * torch.inf, labels)


def test_separation_distance():
    w = vectors(40, 3)
    pairs = [(angle_of(w[i], w[j]), angle_of(w[i], -w[j])) for i in range(40) for j in range(i)]
    assert separation_distance(w).item() == pytest.approx(min(a for a, _ in pairs))
    assert separation_distance(w, half_space=True).item() == pytest.approx(min(min(p) for p in pairs))
    gap = 1e-5  # far below what a float32 cosine resolves
    close = torch.tensor([[1.0, 0.0], [math.cos(gap), math.sin(gap)], [-1.0, 0.0]])
    assert separation_distance(close).item() == pytest.approx(gap, rel=1e-3)
    assert separation_distance(torch.ones(2, 3)) == 0
    several = vectors(40, 64).float()  # their cosines are all 1 in float32
    for row, gap in ((1, 0.0), (3, 1e-4), (5, 3e-5)):
        several[row] = several[row - 1] + gap * several[20]
    assert separation_distance(several) == 0
    assert separation_distance(torch.tensor([[1.0, 2], [-1, -2]])).item() == pytest.approx(math.pi)
    assert separation_distance(torch.tensor([[1.0, 2], [-1, -2]]), half_space=True) == 0
    with pytest.raises(ValueError, match="needs two"):
        separation_distance(w[:1])


def test_separation_distance_over_several_blocks():
    w = vectors(4500, 16).float()
    w[4400] = w[2100] + 1e-3 * w[7]
    expected = angle_of(w[4400].double(), w[2100].double())
    assert separation_distance(w).item() == pytest.approx(expected, rel=1e-3)


def test_covering_radius():
    octahedron = torch.cat([torch.eye(3), -torch.eye(3)])
    radius = covering_radius(octahedron, samples=20_000).item()
    exact = math.acos(1 / math.sqrt(3))
    assert exact - 0.05 < radius <= exact + 1e-6
    assert covering_radius(octahedron, samples=200).item() < radius  # a lower bound that grows
    assert covering_radius(octahedron, samples=500) == covering_radius(octahedron, samples=500)
    assert covering_radius(torch.tensor([[1.0, 0.0]]), 5000).item() == pytest.approx(math.pi, abs=0.01)
    with pytest.raises(ValueError, match="samples"):
        covering_radius(octahedron, samples=0)
    w = torch.tensor([[1.0, 0.0], [0.0, 0.0]])  # a zero vector covers nothing
    assert covering_radius(w, 5000) == covering_radius(w[:1], 5000)
    for none in (torch.ones(0, 3), torch.zeros(2, 3)):
        with pytest.raises(ValueError, match="needs one"):
            covering_radius(none)


def test_uniformity():
    w = vectors(9, 4)
    unit = torch.nn.functional.normalize(w)
    terms = [math.exp(-2 * float((unit[i] - unit[j]).square().sum())) for i in range(9) for j in range(9) if i != j]
    assert uniformity(w).item() == pytest.approx(math.log(sum(terms) / 72))
    assert uniformity(torch.ones(3, 2)).item() == pytest.approx(0, abs=1e-6)
    assert uniformity(torch.eye(3), t=1000.0).item() == -2000  # e^−2000 is no number
    many = vectors(3000, 8)
    torch.testing.assert_close(uniformity(many, 1.0), _uniformity_whole(many, 1.0))


def _uniformity_whole(w, t):
    squares = torch.pdist(torch.nn.functional.normalize(w)) ** 2
    return (-t * squares).exp().mean().log()


@pytest.mark.parametrize("metric", [separation_distance, covering_radius, uniformity])
def test_bad_input(metric):
    with pytest.raises(TypeError, match="floating"):
        metric(torch.ones(3, 2, dtype=torch.long))
    with pytest.raises(ValueError, match="rows"):
        metric(torch.ones(3))


def test_nan_gives_nan():
    w = vectors(5, 3)
    w[1, 1] = math.nan
    assert uniformity(w).isnan()
    assert covering_radius(w, 10).isnan()
    assert separation_distance(w).isnan()


# Precision and types -----------------------------------------------------------------------------------------------


def fisher_by_loops(features, labels):
    """Thesis A.1 in float64, class by class."""
    x, names = np.asarray(features, dtype=np.float64), np.asarray(labels)
    cosine = lambda a, b: float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))  # noqa: E731
    within = between = 0.0
    for name in set(names.tolist()):
        own = x[names == name]
        within += sum(1 - cosine(row, own.mean(0)) for row in own)
        between += len(own) * (1 - cosine(own.mean(0), x.mean(0)))
    return within / between


MEASURES = {
    "separation": lambda w, y: hs.metrics.separation_distance(w),
    "separation_half": lambda w, y: hs.metrics.separation_distance(w, half_space=True),
    "covering": lambda w, y: hs.metrics.covering_radius(w, 3000),
    "uniformity": lambda w, y: hs.metrics.uniformity(w),
    "fisher": hs.metrics.angular_fisher_score,
    "hardness": lambda w, y: hs.metrics.angular_visual_hardness(w, w[:5] + 1, y),
    "confusion": lambda w, y: hs.metrics.cosine_confusion(w, y),
}


@pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES.keys())
def test_autocast_changes_no_measure(measure):
    generator = torch.Generator().manual_seed(0)
    w, y = torch.randn(300, 3, generator=generator), torch.arange(300) % 5
    expected = measure(w, y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = measure(w, y)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, expected, rtol=0, atol=0)


@pytest.mark.parametrize("scale", [1e-38, 1e-20, 1.0, 1e38])
def test_fisher_score_and_confusion_at_any_scale(scale):
    x, y = torch.randn(40, 4, generator=torch.Generator().manual_seed(1)).clamp(-3, 3), torch.arange(40) % 3
    expected = fisher_by_loops(x, y)
    assert float(hs.metrics.angular_fisher_score(x * scale, y)) == pytest.approx(expected, rel=1e-4)
    torch.testing.assert_close(hs.metrics.cosine_confusion(x * scale, y), hs.metrics.cosine_confusion(x, y))
    mixed = x * torch.tensor([1e-30, 1.0, 1e30])[y][:, None]  # the class of 1e-30 keeps its direction
    for own, value in zip(hs.metrics.cosine_confusion(mixed, y), hs.metrics.cosine_confusion(x, y), strict=True):
        torch.testing.assert_close(own, value)
    assert torch.isfinite(hs.metrics.angular_fisher_score(mixed, y))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_labels_of_any_integer_type(dtype):
    x, w, y = torch.randn(6, 4), torch.randn(3, 4), torch.tensor([0, 2, 1, 1, 0, 2])
    hardness = hs.metrics.angular_visual_hardness
    torch.testing.assert_close(hardness(x, w, y.to(dtype)), hardness(x, w, y))
    torch.testing.assert_close(hs.metrics.angular_fisher_score(x, y.to(dtype)), hs.metrics.angular_fisher_score(x, y))


@pytest.mark.parametrize("labels", [[0, 1], None, torch.tensor([0.0, 1.0, 2.0])])
def test_labels_that_are_not_class_indices_raise_errors(labels):
    x = torch.randn(3, 4)
    for measure in (lambda: hs.metrics.angular_visual_hardness(x, x, labels),
                    lambda: hs.metrics.angular_fisher_score(x, labels)):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match="labels"):
            measure()
