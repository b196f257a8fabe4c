"""Lemma 14 of the thesis: diverse neurons leave no spurious local minima (F.28-F.32), as tests with fixed seeds.

s_m(D)² ≥ n·m·γ_m/2 − c·n·ρ(W) for the slopes D (F.30) of n neurons W on m uniform inputs of length 1, with probability
1 − m·exp(−m·γ_m/8) − 2m²·exp(−4 log² d) − δ. The thesis prints neither γ_m nor c. D'D/n tends to κ(x_i, x_j) with
κ(x, y) = k(x, y)·⟨x, y⟩, so γ_m is here the m-th largest eigenvalue of κ over uniform inputs.

As printed the lemma promises nothing: the eigenvalues of κ sum up to κ(x, x) = 1/2, as those of k do, so m·γ_m ≤ 1/2
and the probability is negative from m = 2 on. As ρ > 2, the bound is positive only where c < 1/8. What is tested is
therefore the inequality with a c fitted to other draws: it holds for new ones, it is positive for uniform neurons, and
without ρ it is false for clustered ones.
"""

import itertools
import math

import pytest
import torch

from hypersphere.functional import energy, refine, unit
from sharing import Later

integrate, special, stats = Later("scipy.integrate"), Later("scipy.special"), Later("scipy.stats")

DELTA = 0.1
CASES = [(6, 20), (10, 40)]  # dimension and number of inputs


def gaussians(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def kernel(a, b):
    """k (F.32): how likely two directions are on one side of a random hyperplane through 0, and on a given one."""
    return 0.5 - torch.arccos((unit(a) @ unit(b).mT).clamp(-1, 1)) / (2 * math.pi)


def mean_over_angles(function, dim):
    """The mean of a function of the angle between independent uniform directions."""

    def density(angle):
        return math.sin(angle) ** (dim - 2)

    whole = integrate.quad(density, 0, math.pi)[0]
    return integrate.quad(lambda angle: density(angle) * function(angle), 0, math.pi, limit=200)[0] / whole


def discrepancy(w):
    """L₂(W) = mean k(w_i, w_j)² − E k(u, v)² (F.32), E over independent uniform directions."""
    return float(kernel(w, w).square().mean()) - mean_over_angles(lambda a: (0.5 - a / (2 * math.pi)) ** 2, w.shape[1])


def rho(w, inputs):
    """ρ(W), the right side of (F.32)."""
    dim, gap, log = w.shape[1], discrepancy(w), math.log(1 / DELTA)
    return 2 + math.log(dim) / math.sqrt(dim) * inputs * (
        math.sqrt(2 * gap) * (4 / inputs * log) ** 0.25 + 2 * math.sqrt(4 / (3 * inputs) * log) + gap
    )


def spectrum(dim, degrees):
    """Eigenvalue and multiplicity of κ for each degree of spherical harmonics, by Funk and Hecke's formula."""
    found = []
    for degree in range(degrees):

        def projected(angle, degree=degree):
            harmonic = special.eval_gegenbauer(degree, dim / 2 - 1, math.cos(angle))
            return (0.5 - angle / (2 * math.pi)) * math.cos(angle) * harmonic

        value = mean_over_angles(projected, dim) / special.eval_gegenbauer(degree, dim / 2 - 1, 1.0)
        count = math.comb(dim + degree - 1, degree) - (math.comb(dim + degree - 3, degree - 2) if degree > 1 else 0)
        found.append((value, count))
    return found


def gamma(dim, inputs, degrees=7):
    """γ_m: eigenvalues fall with the even degrees, so that those of the first ones are the largest."""
    values = [value for value, count in sorted(spectrum(dim, degrees), reverse=True) for _ in range(count)]
    return values[inputs - 1]


def slopes(w, v, x):
    """D (nd, m) of F.30: v_i·σ'(w_i·x_j)·x_j."""
    active = (w @ x.mT > 0).double() * v[:, None]
    return (active[:, None, :] * x.mT[None]).flatten(0, 1)


def smallest(w, x):
    """s_m(D)² / n; the signs of v do not matter, nor does v: D'D = (number of neurons active on both)·⟨x_i, x_j⟩."""
    active = (w @ x.mT > 0).double()
    return max(0.0, float(torch.linalg.eigvalsh(active.mT @ active * (x @ x.mT))[0])) / len(w)


def clustered(count, dim, strength, seed):
    """Gaussian neurons, all of them moved in one direction."""
    return gaussians(count, dim, seed=seed) + strength * torch.eye(dim, dtype=torch.float64)[0]


def test_f_31_the_gradient_bounds_the_training_error():
    w, x, y = gaussians(30, 6), unit(gaussians(40, 6, seed=1)), gaussians(40, seed=2)
    v = gaussians(30, seed=3).sign()
    leaf = w.clone().requires_grad_()
    output = (v[:, None] * (leaf @ x.mT).relu()).sum(0)
    loss = (y - output).square().sum() / (2 * 40)
    (gradient,) = torch.autograd.grad(loss, leaf)
    residual = (output.detach() - y) / 40
    matrix = slopes(w, v, x)
    torch.testing.assert_close((matrix @ residual).view_as(w), gradient)  # (F.30)
    smallest = float(torch.linalg.svdvals(matrix).min())
    assert smallest > 0
    assert float(residual.norm()) <= float(gradient.norm()) / smallest  # (F.31)


def test_lemma_14_diverse_neurons_have_a_larger_smallest_singular_value():
    """s_m(D)² ≥ nmγ/2 − c·n·ρ(W), and ρ grows with L₂(W): clustered neurons have both worse than uniform ones."""
    dim, count, samples = 6, 60, 40
    x, v = unit(gaussians(samples, dim, seed=1)), gaussians(count, seed=3).sign()
    uniform = gaussians(count, dim)
    configurations = {
        "clustered": uniform * 0.2 + torch.tensor([1.0] + [0.0] * (dim - 1)),
        "uniform": uniform,
        "refined": refine(uniform, 1.0, starts=1, steps=100),
    }
    smallest = {name: float(torch.linalg.svdvals(slopes(w, v, x)).min()) for name, w in configurations.items()}
    gaps = {name: discrepancy(w) for name, w in configurations.items()}
    energies = {name: float(energy(w, 1.0)) for name, w in configurations.items()}
    assert energies["clustered"] > energies["uniform"] > energies["refined"]
    assert gaps["clustered"] > 5 * abs(gaps["uniform"])
    assert gaps["refined"] < gaps["uniform"]
    assert smallest["uniform"] > 1.5 * smallest["clustered"]
    assert smallest["refined"] > 1.5 * smallest["clustered"]


@pytest.mark.parametrize("dim", [3, 6])
def test_the_eigenvalues_of_the_kernel(dim):
    found = spectrum(dim, 8)
    assert found[1] == pytest.approx((1 / (4 * dim), dim))  # κ(t) = t/4 + t·arcsin(t)/2π: all else is even
    assert all(abs(value) < 1e-9 for value, _ in found[3::2])
    assert all(value > 0 for value, _ in found[::2])
    assert 0.46 < sum(value * count for value, count in found) < 0.5  # towards κ(x, x)
    x = unit(gaussians(1000, dim, seed=7))
    sampled = torch.linalg.eigvalsh(kernel(x, x) * (x @ x.mT)).flip(0) / len(x)
    expected = [value for value, count in sorted(found, reverse=True) for _ in range(count)][: dim + 1]
    torch.testing.assert_close(sampled[: dim + 1], torch.tensor(expected, dtype=torch.float64), rtol=0.15, atol=0)


@pytest.mark.parametrize(("dim", "inputs"), [(3, 2), (6, 20), (10, 40), (10, 65), (50, 50)])
def test_what_lemma_14_promises_as_printed(dim, inputs):
    """Nothing: the probability is negative, and the bound as well unless c < 1/8."""
    value = gamma(dim, inputs, degrees=5)
    assert 0 < inputs * value <= 0.5
    assert 1 - inputs * math.exp(-inputs * value / 8) - 2 * inputs**2 * math.exp(-4 * math.log(dim) ** 2) < 0
    assert inputs * value / 2 < rho(gaussians(300, dim), inputs) / 8


def test_the_smallest_singular_value_is_that_of_the_slopes():
    w, x = gaussians(30, 6), unit(gaussians(20, 6, seed=1))
    matrix = slopes(w, gaussians(30, seed=3).sign(), x)
    assert smallest(w, x) == pytest.approx(float(torch.linalg.svdvals(matrix).min()) ** 2 / 30)


@pytest.mark.parametrize(("dim", "inputs"), CASES)
def test_uniform_neurons_keep_the_smallest_singular_value_up(dim, inputs):
    """s_m(D)² / nm tends to the smallest eigenvalue of κ(x_i, x_j) / m; that of clustered neurons to a smaller one."""
    x = unit(gaussians(inputs, dim, seed=1))
    limit = float(torch.linalg.eigvalsh(kernel(x, x) * (x @ x.mT))[0])
    assert limit > 0.6 * inputs * gamma(dim, inputs) / 2
    found = [smallest(gaussians(count, dim, seed=2), x) for count in (50, 500, 5000, 50_000)]
    assert min(found[1:]) > 0.7 * limit
    assert found[3] == pytest.approx(limit, rel=0.05)
    assert smallest(clustered(50_000, dim, 3.0, seed=2), x) < 0.6 * limit


@pytest.mark.parametrize(("dim", "inputs"), CASES)
def test_lemma_14_with_a_constant_of_other_draws(dim, inputs):
    """c from 100 neurons, with a tenth to spare, holds for other inputs and for 60, 200 and 600 other neurons."""
    strengths, head = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0], inputs * gamma(dim, inputs) / 2

    def draws(seeds, counts):
        for seed in seeds:
            x = unit(gaussians(inputs, dim, seed=1000 + seed))
            for count in counts:
                for strength in strengths:
                    w = clustered(count, dim, strength, seed)
                    yield strength, rho(w, inputs), smallest(w, x)

    c = 1.1 * max((head - value) / size for _, size, value in draws(range(12), [100]))
    assert 0 < c < 1 / 8
    others = list(draws(range(20, 32), [60, 200, 600]))
    assert all(value >= head - c * size for _, size, value in others)
    assert all(head - c * size > 0.05 * head for strength, size, _ in others if strength == 0)
    assert any(value < 0.05 * head for *_, value in others)  # ρ cannot be left out
    assert stats.spearmanr([size for _, size, _ in others], [value for *_, value in others]).statistic < -0.8
    for before, after in itertools.pairwise(strengths):
        sizes = [[size for strength, size, _ in others if strength == one] for one in (before, after)]
        assert all(a < b for a, b in zip(*sizes, strict=True))  # ρ grows where neurons gather, draw by draw
