"""The geometry of thesis 2.3.5 as computations: feasible regions of the trained decision rule, and their angles."""

import math

import numpy as np
import pytest
import torch

import hypersphere as hs

FULL = 2 * math.pi
GRID = np.linspace(-math.pi, math.pi, 40_001)


def vectors(angles):
    return torch.tensor(np.stack([np.cos(angles), np.sin(angles)], -1), dtype=torch.float64)


def feasible(head, own):
    """Angles on the circle where a sample of class ``own`` is right with the margin: its loss is below log 2
    against each other class alone, i.e. ψ(θ_own) > cos θ_j for every j."""
    x = hs.functional.unit(vectors(GRID))
    cos = x @ hs.functional.unit(head.weight.detach()).T
    others = torch.cat([cos[:, :own], cos[:, own + 1 :]], 1)
    return GRID[(head.target(cos[:, own], head.angular) > others.amax(1)).numpy()]


def distance(a, b):
    d = np.abs(a - b) % FULL
    return np.minimum(d, FULL - d)


def spread(a, b):
    """Largest and smallest angle between a point of a and one of b."""
    d = distance(a[:, None], b[None, :])
    return d.max(), d.min()


def circle_head(angles, m):
    head = hs.losses.ASoftmax(2, len(angles), margin=m, dtype=torch.float64)
    with torch.no_grad():
        head.weight.copy_(vectors(np.array(angles)))
    return head


def edges(region):
    """The region's samples next to its ends, plus a few inside."""
    cuts = np.flatnonzero(np.diff(region) > 2 * (GRID[1] - GRID[0]))
    ends = np.unique(np.concatenate([[0, len(region) - 1], cuts, cuts + 1]))
    return region[ends]


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("apart", [0.5, 1.0, 1.4])
def test_binary_angular_margin(m, apart):
    """Between W_1 and W_2 the two regions end (m−1)/(m+1)·θ_12 apart (thesis 2.3.3)."""
    head = circle_head([0.0, apart], m)
    first, second = feasible(head, 0), feasible(head, 1)
    between_1 = first[(first >= 0) & (first <= apart)]
    between_2 = second[(second >= 0) & (second <= apart)]
    assert between_2.min() - between_1.max() == pytest.approx((m - 1) / (m + 1) * apart, abs=1e-3)
    assert between_1.max() == pytest.approx(apart / (m + 1), abs=1e-3)


@pytest.mark.parametrize("apart", [0.7, 1.2])
@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_binary_class_spans_the_stated_angle(m, apart):
    """Class 1 spans θ_12/(m−1) + θ_12/(m+1), for θ_12 ≤ (m−1)π/m (thesis 2.21)."""
    region = feasible(circle_head([0.0, apart], m), 0)
    assert region.max() - region.min() == pytest.approx(apart / (m - 1) + apart / (m + 1), abs=1e-3)


@pytest.mark.parametrize(("m", "holds"), [(2, False), (3, False), (3.7, False), (3.76, True), (4, True), (5, True)])
def test_binary_lower_bound_of_m(m, holds):
    """Largest angle within a class < smallest angle between classes exactly for m > 2 + √3 ≈ 3.732 (property 2)."""
    head = circle_head([0.0, 1.0], m)
    first, second = edges(feasible(head, 0)), edges(feasible(head, 1))
    within = max(spread(first, first)[0], spread(second, second)[0])
    between = spread(first, second)[1]
    assert (within < between) == holds
    assert (m > 2 + math.sqrt(3)) == holds


@pytest.mark.parametrize(("m", "holds"), [(2, False), (2.9, False), (3.1, True), (4, True)])
@pytest.mark.parametrize("classes", [3, 5, 8])
def test_multi_class_lower_bound_of_m(m, holds, classes):
    """The same for evenly spaced classes on the circle exactly for m > 3 (property 3)."""
    head = circle_head([FULL * j / classes for j in range(classes)], m)
    first, second = edges(feasible(head, 0)), edges(feasible(head, 1))
    assert (spread(first, first)[0] < spread(first, second)[1]) == holds


def test_larger_margins_are_harder():
    """Property 1: the feasible region shrinks and the loss grows with m."""
    sizes = [len(feasible(circle_head([0.0, 1.0, 2.5], m), 1)) for m in (1, 2, 3, 4)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 4
    x, y = vectors(np.array([0.2, 1.4])) * 5, torch.tensor([0, 1])
    losses = [circle_head([0.0, 1.0, 2.5], m)(x, y).item() for m in (1, 2, 3, 4)]
    assert losses == sorted(losses)
    assert losses[0] < losses[3]
