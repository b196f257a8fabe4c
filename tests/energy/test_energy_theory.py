"""The thesis's theorems on energies, as statistical tests with fixed seeds."""

import math

import pytest
import torch
from energy_reference import uniform_energy

from hypersphere.functional import energy, refine, unit
from hypersphere.regularizers._draws import MATRICES, HostDraws
from sharing import Later

stats = Later("scipy.stats")


def gaussians(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("s", "dim"), [(1.0, 3), (1.0, 5), (2.0, 8), (0.5, 3), (4.0, 16)])
def test_theorem_2_random_points_have_the_energy_integral(s, dim):
    # For 0 < s < dim − 1 the mean over pairs tends to I_s(σ)
    values = [energy(gaussians(700, dim, seed=seed), s).item() for seed in range(4)]
    assert sum(values) / 4 == pytest.approx(uniform_energy(s, dim), rel=0.01)


def test_theorem_2_refined_points_approach_the_integral_from_below():
    # On the 2-sphere, s = 1: E/N² = I_1 − 1.1046·N^(−1/2) + ..., I_1 = 1
    for count in (40, 120):
        total = energy(refine(gaussians(count, 3), 1.0, starts=1, steps=200), 1.0, reduction="sum").item()
        assert total / count**2 < 1
        assert (1 - total / count**2) * math.sqrt(count) == pytest.approx(1.1046, rel=0.01)


def test_theorem_2_growth_at_and_above_the_dimension():
    # s = d = 2: E/(N² log N) → 1/4 (D.4); s = 4 > d: E grows like N^(1+s/d) = N³
    small, large = (refine(gaussians(count, 3), 2.0, starts=1, steps=200) for count in (60, 120))
    difference = energy(large, 2.0, reduction="sum") / 120**2 - energy(small, 2.0, reduction="sum") / 60**2
    assert difference.item() / math.log(2) == pytest.approx(0.25, rel=0.03)
    small, large = (refine(points, 4.0, starts=1, steps=200) for points in (small, large))
    growth = (energy(large, 4.0, reduction="sum") / energy(small, 4.0, reduction="sum")).log2().item()
    assert growth == pytest.approx(3.0, rel=0.02)


@pytest.mark.parametrize("matrix", sorted(MATRICES))
@pytest.mark.parametrize("epsilon", [0.3, 0.6])
def test_theorem_3_projections_preserve_angles(matrix, epsilon):
    # (6.10) holds with probability (1 − 2·exp(−kε²/8))²
    rows, dim, draws = 60, 200, 600
    first, second = unit(gaussians(2, dim)), None
    second = unit(0.6 * first[0] + 0.8 * unit(first[1] - first[0] * (first[0] @ first[1])))
    cosine = float(first[0] @ second)
    generator = HostDraws(torch.Generator().manual_seed(0))
    held = 0
    for _ in range(draws):
        basis = MATRICES[matrix](rows, dim, generator).double()
        projected = float(unit(basis @ first[0]) @ unit(basis @ second))
        held += (cosine - epsilon) / (1 + epsilon) < projected < (cosine + epsilon) / (1 - epsilon)
    promised = max(0.0, 1 - 2 * math.exp(-rows * epsilon**2 / 8)) ** 2
    assert held / draws >= promised
    assert held / draws >= 0.95  # and far more often than promised


@pytest.mark.parametrize("matrix", sorted(MATRICES))
def test_lemma_3_projections_keep_inner_products_on_average(matrix):
    generator = HostDraws(torch.Generator().manual_seed(1))
    first, second = gaussians(2, 50)
    values = [
        float((p @ first) @ (p @ second)) for p in (MATRICES[matrix](20, 50, generator).double() for _ in range(3000))
    ]
    spread = torch.tensor(values).std().item() / math.sqrt(len(values))
    assert sum(values) / len(values) == pytest.approx(float(first @ second), abs=4 * spread)


def test_theorem_6_normalised_gaussians_are_uniform():
    points = unit(3.7 * gaussians(5000, 6))
    assert points.mean(0).norm() < 0.03
    torch.testing.assert_close(points.mT @ points / 5000, torch.eye(6, dtype=torch.float64) / 6, atol=0.01, rtol=0)
    direction = unit(gaussians(6, seed=3))
    for coordinate in (points[:, 0], points @ direction):  # x² of a uniform direction is Beta(1/2, (d−1)/2)
        assert stats.kstest(coordinate.square().numpy(), stats.beta(0.5, 2.5).cdf).pvalue > 0.01
    skewed = unit(gaussians(5000, 6) * torch.tensor([2.0, 1, 1, 1, 1, 1]))
    assert stats.kstest(skewed[:, 0].square().numpy(), stats.beta(0.5, 2.5).cdf).pvalue < 1e-6
    assert energy(skewed[:700], 2.0) > energy(points[:700], 2.0)
