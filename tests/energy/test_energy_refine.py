import math

import pytest
import torch

from hypersphere.functional import energy, refine

# Σ_{i<j} 1/r of the global minima of Thomson's problem
THOMSON = {
    2: 0.5, 3: 1.732050808, 4: 3.674234614, 5: 6.474691495, 6: 9.985281374, 7: 14.452977414, 8: 19.675287861,
    9: 25.759986531, 10: 32.716949460, 11: 40.596450510, 12: 49.165253058, 13: 58.853230612, 14: 69.306363297,
    15: 80.670244114, 16: 92.911655303, 17: 106.050404829, 18: 120.084467447, 19: 135.089467557, 20: 150.881568334,
}  # fmt: skip
# Largest smallest angle between N points on the 2-sphere, degrees
TAMMES = {3: 120.0, 4: math.degrees(math.acos(-1 / 3)), 6: 90.0, 8: 74.8584922}


def start(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20])
def test_thomson(count):
    points = refine(start(count, 3, seed=count))
    assert (torch.pdist(points) ** -1).sum().item() == pytest.approx(THOMSON[count], rel=1e-8)
    torch.testing.assert_close(points.norm(dim=1), torch.ones(count, dtype=torch.float64))


@pytest.mark.parametrize("count", sorted(TAMMES))
def test_tammes(count):
    points = refine(start(count, 3), s=math.inf)
    cosines = (points @ points.mT).fill_diagonal_(-1)
    assert math.degrees(math.acos(float(cosines.max()))) == pytest.approx(TAMMES[count], rel=2e-6)


def test_high_dimensions_reach_the_simplex_and_the_orthogonal_frame():
    simplex = refine(start(8, 20))
    expected = torch.full((8, 8), -1 / 7, dtype=torch.float64).fill_diagonal_(1)
    torch.testing.assert_close(simplex @ simplex.mT, expected, atol=1e-6, rtol=0)
    frame = refine(start(6, 6), s=2.0, half_space=True)
    torch.testing.assert_close((frame @ frame.mT).abs(), torch.eye(6, dtype=torch.float64), atol=1e-6, rtol=0)


@pytest.mark.parametrize("distance", ["euclidean", "angular"])
@pytest.mark.parametrize("s", [0.0, 2.0, 30.0])
def test_descends_and_is_stationary(s, distance):
    w = start(30, 4)
    points = refine(w, s, distance=distance, starts=1, steps=400).requires_grad_()
    value = energy(points, s, distance)
    assert value < energy(w, s, distance)
    if distance == "euclidean":  # angles have a kink at π, where minima of theirs may sit
        (gradient,) = torch.autograd.grad(value, points)
        assert gradient.abs().max() < 1e-4 * max(1.0, value.item())


def descended(w, s, half_space, steps, lr):
    """ŵ ← ŵ − lr·∇E by differences: no function of the library is used."""

    def mean(w):
        w = w / w.norm(dim=1, keepdim=True)
        w = torch.cat([w, -w]) if half_space else w
        pairs = [(w[i] - w[j]).norm() for i in range(len(w)) for j in range(len(w)) if i != j]
        terms = torch.stack(pairs) ** -s if s else -torch.stack(pairs).log()
        return terms.mean()

    w = w / w.norm(dim=1, keepdim=True)
    for _ in range(steps):
        gradient = torch.zeros_like(w)
        for i in range(len(w)):
            for k in range(w.shape[1]):
                nudge = torch.zeros_like(w)
                nudge[i, k] = 1e-5
                gradient[i, k] = (mean(w + nudge) - mean(w - nudge)) / 2e-5
        w = w - lr * gradient
        w = w / w.norm(dim=1, keepdim=True)
    return w


@pytest.mark.parametrize("half_space", [False, True])
@pytest.mark.parametrize("s", [0.0, 1.0, 2.0])
def test_gradient_descent_makes_the_steps_that_it_is_told(s, half_space):
    w = start(4, 3, seed=5)
    expected = descended(w, s, half_space, steps=3, lr=0.5)
    found = refine(w, s, half_space, steps=3, lr=0.5)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    assert not torch.allclose(found, refine(w, s, half_space, steps=2, lr=0.5), atol=1e-3)


def test_gradient_descent_goes_on_to_the_minimum_and_stops_at_the_tolerance():
    w = start(4, 3)
    points = refine(w, steps=3000, lr=0.5)
    assert (torch.pdist(points) ** -1).sum().item() == pytest.approx(THOMSON[4], rel=1e-6)
    assert not torch.equal(refine(w, steps=3000, lr=0.5, tolerance=1e-2), points)
    both = refine(torch.stack([w, start(4, 3, seed=1)]), steps=7, lr=0.3)
    assert both.shape == (2, 4, 3)
    half = refine(start(64, 300, dtype=torch.bfloat16), steps=2, lr=1.0)
    assert half.dtype == torch.bfloat16
    assert torch.isfinite(half).all()


def test_more_neurons_than_dimensions_descend_towards_opposite_ones():
    """Thesis Table 7.6: a whole minimum in full space is a poor start in half space, an early end is a better one."""
    w = start(64, 27, dtype=torch.float32)
    before, early, late = (energy(p, 2.0, half_space=True) for p in (w, refine(w, steps=2000, lr=1.0), refine(w)))
    assert early < before < late


def test_batches_are_refined_set_by_set():
    w = start(2, 5, 3)
    points = refine(w, starts=1)
    assert points.shape == w.shape
    for one in points:
        assert (torch.pdist(one) ** -1).sum().item() == pytest.approx(THOMSON[5], rel=1e-6)


def test_equal_and_zero_vectors_part():
    for w in (torch.ones(6, 3), torch.zeros(6, 3)):
        points = refine(w, starts=1)
        assert points.dtype == torch.float32
        assert (torch.pdist(points) ** -1).sum().item() == pytest.approx(THOMSON[6], rel=1e-5)


def test_float32_bf16_and_large_sets():
    w = start(64, 300, dtype=torch.float32)
    points = refine(w, steps=30)
    assert energy(points, 1.0) < energy(w, 1.0) - 1e-3
    assert refine(w.bfloat16(), steps=2).dtype == torch.bfloat16


def test_reproducible_and_outside_the_graph():
    w = start(7, 3).requires_grad_()
    first = refine(w)
    torch.manual_seed(123)
    assert torch.equal(first, refine(w))
    assert not first.requires_grad
    with torch.inference_mode():
        assert torch.equal(first, refine(1 * w))


def test_one_point_and_zero_steps_only_normalise():
    torch.testing.assert_close(refine(torch.tensor([[3.0, 4.0]])), torch.tensor([[0.6, 0.8]]))
    assert refine(torch.tensor([[3.0], [-2.0]])).tolist() == [[1.0], [-1.0]]
    w = start(4, 3)
    torch.testing.assert_close(refine(w, steps=0), w / w.norm(dim=1, keepdim=True))


def test_bad_input():
    w = start(4, 3)
    with pytest.raises(ValueError, match="NaN"):
        refine(w * math.nan)
    with pytest.raises(ValueError, match="s=-1"):
        refine(w, s=-1.0)
    with pytest.raises(ValueError, match="steps"):
        refine(w, steps=-1)
    with pytest.raises(ValueError, match="starts"):
        refine(w, starts=0)
    with pytest.raises(ValueError, match="rows"):
        refine(w[0])
    with pytest.raises(ValueError, match="lr=0"):
        refine(w, lr=0.0)
    with pytest.raises(ValueError, match="gradient descent is for s ≤ 16"):
        refine(w, s=math.inf, lr=0.1)
