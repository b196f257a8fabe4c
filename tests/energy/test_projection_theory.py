"""Theorems 1, 4 and 5 and the Johnson-Lindenstrauss lemma of the thesis, as tests with fixed seeds."""

import math

import pytest
import torch

from hypersphere.functional import refine, unit
from hypersphere.regularizers._draws import MATRICES, HostDraws
from sharing import Later

stats = Later("scipy.stats")


def gaussians(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("s", [1.0, 2.0, 4.0])  # below, at and above the dimension of the sphere
def test_theorem_1_minimal_energies_are_asymptotically_uniform(s):
    """Weak-star convergence on the 2-sphere: moments and distribution functions tend to those of σ, faster than 1/√N.

    Coordinates of a uniform direction in R³ are uniform on [−1, 1].
    """
    gaps, discrepancies = [], []
    for count in (30, 240):
        points = refine(gaussians(count, 3), s, starts=1, steps=150)
        second = points.mT @ points / count - torch.eye(3, dtype=torch.float64) / 3
        gaps.append(float(points.mean(0).norm() + second.norm()))
        directions = unit(gaussians(20, 3, seed=5))
        tests = [stats.kstest((points @ u).numpy(), stats.uniform(-1, 2).cdf).statistic for u in directions]
        discrepancies.append(sum(tests) / len(tests))
    assert discrepancies[1] < 0.4 * discrepancies[0]  # chance would give √(1/8) = 0.35 from a far higher start
    assert discrepancies[1] < 0.5 / math.sqrt(240)  # 0.87/√N on average for independent points
    assert gaps[1] < 0.01
    clustered = unit(gaussians(240, 3) + torch.tensor([2.0, 0, 0]))
    assert stats.kstest(clustered[:, 0].numpy(), stats.uniform(-1, 2).cdf).statistic > 0.3


def held(project, cosine, epsilon, draws=200, dim=40):
    """How often (6.11) holds of two vectors with this cosine, for ``project(dim, draw)`` as the matrix."""
    first = unit(gaussians(dim))
    side = gaussians(dim, seed=1)
    side = unit(side - first * (first @ side))
    pair = torch.stack([first, cosine * first + math.sqrt(1 - cosine**2) * side], -1)
    low, high = bounds_of_theorem_4(cosine, epsilon)
    images = (unit((project(dim, draw) @ pair).mT) for draw in range(draws))
    return sum(low < float(a @ b) < high for a, b in images) / draws


def promised_by_theorem_4(rows, epsilon):
    return 1 - 6 * math.exp(-rows / 2 * (epsilon**2 / 2 - epsilon**3 / 3))


def gaussian(rows):
    return lambda dim, draw: MATRICES["gaussian"](rows, dim, HostDraws(torch.Generator().manual_seed(draw))).double()


@pytest.mark.parametrize("cosine", [0.05, 0.2, 0.6, 0.8])
@pytest.mark.parametrize(("epsilon", "rows"), [(0.1, 2500), (0.2, 600), (0.3, 300)])  # promised: 0.96 to 0.98
def test_theorem_4_gaussian_projections_preserve_acute_angles(cosine, epsilon, rows):
    """(6.11) holds with probability 1 − 6·exp(−k/2·(ε²/2 − ε³/3))."""
    low, high = bounds_of_theorem_4(cosine, epsilon)
    assert -1 < low < cosine < high < 1  # both can be missed
    promised = promised_by_theorem_4(rows, epsilon)
    assert promised > 0.95
    assert held(gaussian(rows), cosine, epsilon) >= promised


@pytest.mark.parametrize("cosine", [0.2, 0.4, 0.6])
def test_theorem_4_fails_where_its_conditions_do(cosine):
    """Matrices of rank 3 or without negative entries lose the angle; bounds of a sixth of ε do not hold as often."""
    epsilon, rows = 0.3, 300
    promised = promised_by_theorem_4(rows, epsilon)
    full = gaussian(rows)
    assert held(lambda dim, draw: gaussians(rows, 3, seed=1) @ gaussian(3)(dim, draw), cosine, epsilon) < 0.9 * promised
    assert held(lambda dim, draw: full(dim, draw).abs(), cosine, epsilon) < 0.9 * promised
    low, high = bounds_of_theorem_4(cosine, epsilon)
    narrow = bounds_of_theorem_4(cosine, epsilon / 6)
    assert low < narrow[0] < cosine < narrow[1] < high
    assert held(full, cosine, epsilon / 6) < 0.9 * promised


def bounds_of_theorem_3(c, e):
    return (c - e) / (1 + e), (c + e) / (1 - e)


def bounds_of_theorem_4(c, e):
    root = math.sqrt(1 - e**2)
    return (1 + e) / (1 - e) * c - 2 * e / (1 - e), (1 - e) / (1 + e) * c + (1 + 2 * e) / (1 + e) - root / (1 + e)


@pytest.mark.parametrize("e", [0.1, 0.3, 0.6])
def test_which_of_the_two_bounds_is_tighter(e):
    """6.4.1: Theorem 3 below where θ > arccos((ε+3ε²)/(3ε+ε²)), above where θ > arccos of the other fraction."""
    lower = (e + 3 * e**2) / (3 * e + e**2)
    upper = (1 - 3 * e**2 - (1 - e) * math.sqrt(1 - e**2)) / (3 * e - e**2)
    for c in torch.linspace(0.01, 0.99, 99).tolist():
        (low3, high3), (low4, high4) = bounds_of_theorem_3(c, e), bounds_of_theorem_4(c, e)
        assert (low3 > low4) == (c < lower)
        assert (high3 < high4) == (c < upper)


def test_theorem_5_a_random_projection_tells_distributions_apart():
    """Two different distributions differ on almost every line; a line chosen beforehand may not see it."""
    count, dim = 4000, 4
    uniform = unit(gaussians(count, dim, seed=2))
    again = unit(gaussians(count, dim, seed=3))
    folded = unit(gaussians(count, dim, seed=4))
    folded[:, 1] = folded[:, 1].abs()  # the same on the line of e_0, and on every line across e_1
    lines = unit(gaussians(20, dim, seed=5))
    for line in lines:
        assert stats.ks_2samp((uniform @ line).numpy(), (again @ line).numpy()).pvalue > 1e-3
    told = [stats.ks_2samp((uniform @ line).numpy(), (folded @ line).numpy()).pvalue for line in lines]
    assert sum(value < 1e-3 for value in told) >= 16
    fixed = torch.eye(dim, dtype=torch.float64)[0]
    assert stats.ks_2samp((uniform @ fixed).numpy(), (folded @ fixed).numpy()).pvalue > 1e-3


@pytest.mark.parametrize("matrix", sorted(MATRICES))
@pytest.mark.parametrize("epsilon", [0.4, 0.8])
def test_johnson_lindenstrauss(matrix, epsilon):
    """(E.5): (1 − ε)‖w₁ − w₂‖² < ‖Pw₁ − Pw₂‖² < (1 + ε)‖w₁ − w₂‖², kσ² = 1, with probability 1 − 2·exp(−kε²/8)."""
    rows, dim, draws = 60, 200, 500
    difference = gaussians(dim) - gaussians(dim, seed=1)
    generator, held = HostDraws(torch.Generator().manual_seed(0)), 0
    for _ in range(draws):
        image = MATRICES[matrix](rows, dim, generator).double() @ difference
        held += 1 - epsilon < float(image @ image / (difference @ difference)) < 1 + epsilon
    assert held / draws >= max(0.0, 1 - 2 * math.exp(-rows * epsilon**2 / 8))


def test_random_directions_are_nearly_orthogonal():
    """(E.3): √n⟨U, V⟩ tends to a standard normal."""
    for dim in (50, 2000):
        products = (unit(gaussians(3000, dim)) * unit(gaussians(3000, dim, seed=1))).sum(1) * math.sqrt(dim)
        assert stats.kstest(products.numpy(), stats.norm.cdf).pvalue > 0.01
