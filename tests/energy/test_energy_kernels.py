"""The fused sweep and the joint energies of several sets against float64: on a GPU, or in Triton's interpreter."""

import pytest
import torch
from energy_reference import duplicated, gradient_without_duplicates, reference_energy

pytest.importorskip("triton")

from hypersphere.functional import class_energy, energy
from hypersphere.functional.energy import set_energies, weighted_energy
from hypersphere.kernels import energy as sweeps
from hypersphere.kernels import sets as joint

CASES = [
    (2.0, "euclidean", False, False),
    (2.0, "euclidean", True, False),
    (0.0, "euclidean", True, False),
    (0.0, "euclidean", True, True),
    (3.5, "euclidean", False, True),
    (1.0, "angular", True, False),
    (0.0, "angular", False, False),
]


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch, on_kernels):
    """Several strips, blocks of columns, tiles and parts of tiles for few vectors."""
    monkeypatch.setattr(sweeps, "SHAPE", sweeps._Shape(16, 32, 16, 4, 2, 16, 16))
    monkeypatch.setattr(sweeps, "_STRIP", 32)
    monkeypatch.setattr(sweeps, "_WIDTH", 48)
    monkeypatch.setattr(joint, "_CHUNK", 32)


def seeded(seed):
    return torch.Generator(torch.get_default_device()).manual_seed(seed)


def crowded(count=52, dim=34, seed=0):
    """Random vectors with close pairs, an opposite pair, equal ones and a zero vector."""
    w = torch.randn(count, dim, generator=seeded(seed))
    w[5] = w[3] + 0.003 * w[8]
    w[7] = w[3] + 0.2 * w[9]
    w[40] = -w[3] + 0.03 * w[11]
    w[20] = 0
    return w


def differentiated(function, w):
    w = w.clone().requires_grad_()
    value = function(w)
    return value.detach(), torch.autograd.grad(value, w)[0]


def apart(found, expected):
    return ((found.double() - expected.double()).norm() / expected.double().norm()).item()


@pytest.mark.parametrize(("s", "distance", "half_space", "weighted"), CASES)
def test_sweep(s, distance, half_space, weighted):
    w = crowded()
    generator = seeded(1)
    beta = torch.rand(len(w), generator=generator) + 0.5
    beta[::4] *= -1
    weights = beta if weighted else None
    value, gradient = differentiated(lambda x: energy(x, s, distance, half_space, weights, block_size=8), w)
    exact = differentiated(
        lambda x: energy(x, s, distance, half_space, None if weights is None else weights.double()), w.double()
    )
    assert value.item() == pytest.approx(exact[0].item(), rel=2e-6)
    assert apart(gradient, exact[1]) < 1e-5
    kept = [i for i in range(len(w)) if i != 20]
    lengths = None if weights is None else weights[kept].cpu()
    plain = reference_energy(w[kept].cpu(), s, distance, half_space, lengths, reduction="sum")
    without = energy(w[kept], s, distance, half_space, None if weights is None else weights[kept], "sum", block_size=8)
    assert without.item() == pytest.approx(plain, rel=1e-5)


def test_large_powers_of_small_weights_do_not_overflow_on_the_way():
    w, weights = torch.eye(40), torch.full((40,), 0.1)
    value, gradient = differentiated(lambda x: energy(x, 40.0, weights=weights, block_size=8), w)
    exact = differentiated(lambda x: energy(x, 40.0, weights=weights.double()), w.double())
    assert value.item() == pytest.approx(exact[0].item(), rel=1e-4)
    assert apart(gradient, exact[1]) < 1e-4


@pytest.mark.parametrize("half_space", [False, True])
@pytest.mark.parametrize("distance", ["euclidean", "angular"])
def test_single_products_about_the_tangent(distance, half_space, monkeypatch):
    """Few dimensions spread the cosines more than the limit allows: here only the algebra is looked at."""
    for name, value in (("_LARGE", 2), ("_MANY", 2), ("_SPREAD", 1e9)):
        monkeypatch.setattr(sweeps, name, value)
    w = crowded() + 0.3
    value, gradient = differentiated(lambda x: energy(x, 2.0, distance, half_space, block_size=8), w)
    exact = differentiated(lambda x: energy(x, 2.0, distance, half_space), w.double())
    assert value.item() == pytest.approx(exact[0].item(), rel=2e-6)
    assert apart(gradient, exact[1]) < 1e-5


def test_spread_cosines_are_refused_single_products(monkeypatch):
    pairing = sweeps.Pairing(2.0, False, False, 1e-6)
    even = torch.nn.functional.normalize(torch.randn(3000, 256, generator=seeded(0)))
    assert sweeps._tangent(even, pairing) is not None
    assert sweeps._tangent(torch.nn.functional.normalize(even + even.roll(1, 0)[:, :1] * 3), pairing) is None
    assert sweeps._tangent(even * float("nan"), pairing) is None


def test_a_full_list_of_close_pairs(monkeypatch):
    """What does not fit is corrected from the cosines."""
    w = torch.randn(4, 40, generator=seeded(2)).repeat(8, 1)
    w = w + 0.02 * torch.randn(w.shape, generator=seeded(3))
    expected = differentiated(lambda x: energy(x, half_space=True), w.double())
    build = sweeps._Work.__init__

    def crammed(self, *args):
        build(self, *args)
        self.capacity = 7

    monkeypatch.setattr(sweeps._Work, "__init__", crammed)
    value, gradient = differentiated(lambda x: energy(x, half_space=True, block_size=8), w)
    assert value.item() == pytest.approx(expected[0].item(), rel=5e-4)  # as exact as a cosine in float32
    assert apart(gradient, expected[1]) < 2e-3


@pytest.mark.parametrize(("half_space", "weighted"), [(False, False), (True, True)])
def test_few_neurons(half_space, weighted):
    """By the kernels of several sets, near pairs from their difference, whatever products round to."""
    w = crowded()[:24]
    w[5] = w[3] + 0.007 * w[8]
    w[12] = -w[3] + 0.01 * w[9]
    beta = torch.linspace(0.5, 2, len(w)) if weighted else None
    value, gradient = differentiated(lambda x: energy(x, 2.0, "euclidean", half_space, beta, "sum"), w)
    wide = None if beta is None else beta.double()
    exact = differentiated(lambda x: energy(x, 2.0, "euclidean", half_space, wide, "sum"), w.double())
    assert value.item() == pytest.approx(exact[0].item(), rel=1e-5)
    assert apart(gradient, exact[1]) < 1e-5


def test_compilers_are_told_the_shapes():
    """Of what the operators of several sets return: by their fake forms, from tensors without values."""
    sizes, factors = [65, 33, 1], [1.0]
    outcomes = []
    for device in (None, "meta"):
        sets = [torch.ones(65, 33, device=device)]
        total, values, *kept = torch.ops.hypersphere.set_energies(sets, sizes, factors, None, 2.0, False, 1e-6)
        gradient = torch.ops.hypersphere.set_gradients(*kept, total, values, sizes, factors)
        outcomes.append([(t.shape, t.stride(), t.dtype) for t in (total, values, *kept, gradient)])
    assert outcomes[0] == outcomes[1]


def test_pairs_at_the_edge_of_what_is_near():
    """Of which one neuron may be near the other, and not the other way round."""
    turn = torch.linalg.qr(torch.randn(34, 34, dtype=torch.float64, generator=seeded(0)))[0]
    w = (0.97**0.5 * turn[0] + 0.03**0.5 * turn[1:]).float()  # each with each: a cosine of 0.97, give or take an ulp
    assert apart(differentiated(energy, w)[1], differentiated(energy, w.double())[1]) < 1e-5


@pytest.mark.parametrize("block_size", [None, 8])
@pytest.mark.parametrize(("half_space", "weighted"), [(False, False), (True, True)])
def test_neurons_of_one_direction_do_not_push_each_other(half_space, weighted, block_size):
    w = duplicated(torch.randn(9, 33, generator=seeded(8)))
    beta = torch.linspace(0.5, 2, len(w)) if weighted else None
    _, gradient = differentiated(lambda x: energy(x, 2.0, "euclidean", half_space, beta, block_size=block_size), w)
    assert apart(gradient, gradient_without_duplicates(w, 2.0, half_space, beta)) < 3e-5


def test_what_counts_as_one_direction_is_said_once():
    from hypersphere.kernels.device import pair

    assert pair.SAME.value == pytest.approx(2 * torch.finfo(torch.float32).eps ** 2, rel=1e-6)


def test_second_derivatives_and_nan():
    w = torch.randn(18, 33, generator=seeded(5)).requires_grad_()

    def curved(block):
        (first,) = torch.autograd.grad(energy(w, block_size=block), w, create_graph=True)
        return torch.autograd.grad((first * first.detach()).sum(), w)[0]

    torch.testing.assert_close(curved(8), curved(None), rtol=1e-4, atol=1e-5 * curved(None).abs().max().item())
    bad = w.detach().clone()
    bad[2, 1] = float("nan")
    assert energy(bad, block_size=8).isnan()


@pytest.mark.parametrize("distance", ["euclidean", "angular"])
def test_class_energy(distance, monkeypatch):
    from hypersphere.functional.energy import energies

    w, labels = crowded(), torch.tensor([3, 5, 3, 0, -100, 51, 40])
    expected = differentiated(lambda x: class_energy(x, labels, 2.0, distance), w.double())
    monkeypatch.setattr(energies, "DENSE_PAIRS", 1)
    value, gradient = differentiated(lambda x: class_energy(x, labels, 2.0, distance), w)
    assert value.item() == pytest.approx(expected[0].item(), rel=2e-6)
    assert apart(gradient, expected[1]) < 1e-5
    x = w.clone().requires_grad_()
    (first,) = torch.autograd.grad(class_energy(x, labels, 2.0, distance), x, create_graph=True)
    assert torch.isfinite(torch.autograd.grad(first.sum(), x)[0]).all()


@pytest.mark.parametrize(("s", "distance"), [(2.0, "euclidean"), (0.0, "euclidean"), (2.5, "angular")])
def test_several_sets_at_once(s, distance, monkeypatch):
    monkeypatch.setattr(joint, "SOURCES", 2)
    monkeypatch.setattr(joint, "_BLOCK", 16)
    generator = seeded(4)
    sets = [torch.randn(*shape, generator=generator) for shape in ((2, 20, 36), (5, 40), (2, 4))]
    sets[0][1, 17] = sets[0][1, 3] + 0.02 * sets[0][1, 4]
    sets[0][0, 17] = -sets[0][0, 18] + 0.05 * sets[0][0, 4]
    sets[1][2] = 0
    sets[2] *= 1e12
    halves = [True, False, True]
    leaves = [w.clone().requires_grad_() for w in sets]
    values = set_energies(leaves, s, distance, halves)
    sum((value * torch.arange(1.0, 1 + value.numel()).view_as(value)).sum() for value in values).backward()
    for leaf, w, value, half in zip(leaves, sets, values, halves, strict=True):
        exact = w.double().requires_grad_()
        expected = energy(exact, s, distance, half)
        (expected * torch.arange(1.0, 1 + expected.numel()).view_as(expected)).sum().backward()
        torch.testing.assert_close(value.double(), expected, rtol=2e-6, atol=1e-6)
        assert apart(leaf.grad, exact.grad) < 1e-5
    total = weighted_energy(leaves, [0.5, 2.0, 1.0], s, distance, halves)
    expected = 0.5 * values[0].sum() + 2 * values[1].sum() + values[2].sum()
    torch.testing.assert_close(total, expected)


@pytest.mark.parametrize(("s", "distance"), [(2.0, "euclidean"), (3.0, "angular")])
def test_a_weighted_sum_of_energies(s, distance, monkeypatch):
    """Σ factor·energy, of neurons with lengths of their own in Euclidean distance: its value and gradients."""
    monkeypatch.setattr(joint, "_BLOCK", 16)
    sets = [torch.randn(*shape, generator=seeded(6)) for shape in ((2, 18, 20), (6, 40))]
    lengths = [torch.rand(2, 18, generator=seeded(7)) + 0.5, None] if distance == "euclidean" else [None, None]
    leaves = [w.clone().requires_grad_() for w in sets]
    total = weighted_energy(leaves, [0.5, 2.0], s, distance, [True, False], lengths)
    (3 * total).backward()
    exact = [w.double().requires_grad_() for w in sets]
    beta = None if lengths[0] is None else lengths[0].double()
    expected = 0.5 * energy(exact[0], s, distance, True, beta).sum() + 2 * energy(exact[1], s, distance)
    (3 * expected).backward()
    assert total.item() == pytest.approx(expected.item(), rel=2e-6, abs=1e-6)
    for leaf, w in zip(leaves, exact, strict=True):
        assert apart(leaf.grad, w.grad) < 1e-5
    (first,) = torch.autograd.grad(
        weighted_energy(leaves, [0.5, 2.0], s, distance, [True, False], lengths), leaves[:1], create_graph=True
    )
    torch.testing.assert_close(3 * first.detach(), leaves[0].grad, rtol=1e-4, atol=1e-6)
    assert torch.autograd.grad(first.square().sum(), leaves[0])[0].isfinite().all()
