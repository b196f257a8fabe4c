"""Holes of directions (thesis F.9), facets and Lemma 15, against closed forms and known solids."""

import itertools
import math

import pytest
import torch

from hypersphere.functional import refine, unit
from hypersphere.metrics import covering_radius, hole_radii


def gaussians(count, dim, seed):
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def kappa(d):
    """κ_d (F.41)."""
    return math.gamma((d + 1) / 2) / (d * math.sqrt(math.pi) * math.gamma(d / 2))


def facets_per_point(d):
    """B_d (F.41) with κ of d², as [211] has it: the thesis prints a square, which would give 2/3 for d = 2."""
    return 2 / (d + 1) * kappa(d**2) / kappa(d) ** d


def expected_powers(count, d, p):
    """E Σ ρ^p of random points on S^d (F.43), without the O-term."""
    ratio = math.lgamma(d + p / d) + math.lgamma(count + 1) - math.lgamma(d) - math.lgamma(count + p / d)
    return facets_per_point(d) * kappa(d) ** (-p / d) * math.exp(ratio)


def test_solids():
    octahedron = torch.cat([torch.eye(3), -torch.eye(3)])
    expected = math.sqrt(2 - 2 / math.sqrt(3))  # faces at distance 1/√3
    torch.testing.assert_close(hole_radii(octahedron), torch.full((8,), expected))
    simplex = unit(torch.eye(4, dtype=torch.float64) - 0.25) @ torch.linalg.qr(gaussians(4, 4, 0))[0]
    basis = torch.linalg.svd(simplex)[2][:3]  # a tetrahedron in its own three dimensions
    torch.testing.assert_close(hole_radii(simplex @ basis.T), torch.full((4,), math.sqrt(4 / 3), dtype=torch.float64))
    square = torch.tensor([[1.0, 0], [0, 2], [-3, 0], [0, -1]])  # lengths do not matter
    torch.testing.assert_close(hole_radii(square), torch.full((4,), math.sqrt(2 - math.sqrt(2))))
    aside = torch.tensor([[1.0, 0], [1, 1], [1, -1]])  # on one side of 0, which is no point beside them
    torch.testing.assert_close(hole_radii(torch.cat([aside, torch.zeros(2, 2)])), hole_radii(aside))
    cap = torch.tensor([[1.0, 0, 0], [1, 0.1, 0], [1, 0, 0.1], [1, 0.1, 0.1]])  # the origin is outside: a hole > π/2
    assert float(hole_radii(cap)[0]) > math.sqrt(2)


GOLDEN = (1 + math.sqrt(5)) / 2
CUBES = {dim: [*itertools.product((-1.0, 1.0), repeat=dim)] for dim in (2, 3, 4)}
DODECAHEDRON = CUBES[3] + [
    corner
    for a, b in itertools.product((-1 / GOLDEN, 1 / GOLDEN), (-GOLDEN, GOLDEN))
    for corner in ((0.0, a, b), (a, b, 0.0), (b, 0.0, a))
]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("corners", "facets", "distance"),
    [
        (CUBES[3], 6, 1 / math.sqrt(3)),
        (CUBES[4], 8, 1 / 2),
        (DODECAHEDRON, 12, math.sqrt((5 + 2 * math.sqrt(5)) / 15)),
    ],
    ids=["cube", "tesseract", "dodecahedron"],
)
def test_a_facet_with_many_corners_is_one(corners, facets, distance, turned, dtype):
    w = torch.tensor(corners, dtype=torch.float64)
    w = w @ torch.linalg.qr(gaussians(w.shape[1], w.shape[1], 3))[0] if turned else w
    expected = torch.full((facets,), math.sqrt(2 - 2 * distance), dtype=dtype)
    torch.testing.assert_close(hole_radii(w.to(dtype)), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_facets_of_many_neurons_are_kept_in_low_precision(dtype):
    w = gaussians(2000, 3, 0).to(dtype)
    exact, found = hole_radii(w.double()), hole_radii(w)
    assert len(found) >= 0.995 * len(exact)
    assert float(found[0]) == pytest.approx(float(exact[0]), rel=1e-5)


def test_directions_that_are_all_zero_are_named():
    with pytest.raises(ValueError, match="w has 0 neurons that are not 0"):
        hole_radii(torch.zeros(5, 3))


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_the_largest_hole_is_the_covering_radius(dim):
    w = gaussians(30, dim, 1)
    radii = hole_radii(w)
    assert torch.equal(radii, radii.sort(descending=True).values)
    exact = 2 * math.asin(float(radii[0]) / 2)
    sampled = float(covering_radius(w, samples=200_000))
    assert sampled <= exact + 1e-9
    assert sampled > 0.95 * exact
    # (F.39): the p-norm of the radii tends to the largest
    norms = [float((radii**p).sum() ** (1 / p)) for p in (10, 100, 400)]
    assert norms == sorted(norms, reverse=True)
    assert norms[-1] == pytest.approx(float(radii[0]), rel=0.02)


def test_kappa_follows_its_recursion():
    assert kappa(1) == pytest.approx(1 / math.pi)
    for d in range(2, 9):
        assert kappa(d) == pytest.approx(1 / (2 * math.pi * d * kappa(d - 1)))
    assert [facets_per_point(d) for d in (1, 2)] == pytest.approx([1.0, 2.0])  # N edges; 2N − 4 triangles


@pytest.mark.parametrize(("dim", "count"), [(2, 200), (3, 300), (4, 300)])
def test_lemma_15_facets_and_powers_of_hole_radii(dim, count):
    d = dim - 1
    draws = [hole_radii(gaussians(count, dim, seed)) for seed in range(40)]
    facets = sum(len(radii) for radii in draws) / len(draws)
    slack = 4 * count ** (-2 / d)  # the O-term
    assert facets == pytest.approx(facets_per_point(d) * count, rel=slack)
    for p in (1, 2, 4):
        found = torch.tensor([float((radii**p).sum()) for radii in draws])
        spread = 4 * float(found.std()) / math.sqrt(len(draws)) / float(found.mean())
        assert float(found.mean()) == pytest.approx(expected_powers(count, d, p), rel=slack + spread), p


def test_random_neurons_have_larger_holes_than_refined_ones():
    w = gaussians(40, 3, 2)
    assert hole_radii(refine(w, 1.0, starts=1, steps=100))[0] < hole_radii(w)[0]


@pytest.mark.parametrize(
    ("w", "message"),
    [
        (torch.eye(3), r"a hull needs \(N, d\)"),
        (torch.ones(5), r"a hull needs \(N, d\)"),
        (torch.tensor([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]]), "lie in one hyperplane"),
        (torch.ones(5, 3, dtype=torch.long), "floating"),
    ],
)
def test_bad_input(w, message):
    with pytest.raises((ValueError, TypeError), match=message):
        hole_radii(w)
