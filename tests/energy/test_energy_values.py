"""Energies against loops over pairs, by finite differences, in every mode; invariances and known configurations."""

import itertools
import math

import pytest
import torch
from energy_reference import reference_energy
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

import hypersphere as hs
from harness import Case, Suite
from harness import draw as vectors
from hypersphere.functional import class_energy, energy
from hypersphere.functional.energy import energies

POWERS = (0.0, 0.5, 1.0, 2.0, 3.3)
SETTINGS = [(s, d, h, False) for s in POWERS for d in ("euclidean", "angular") for h in (False, True)]
SETTINGS += [(s, "euclidean", h, True) for s in POWERS for h in (False, True)]


def some_weights(count):
    return torch.rand(count, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.5


def measured(setting, count, dim, checks, reduction="mean", block_size=None, **options):
    """A case: so many neurons, against loops over pairs."""
    s, distance, half_space, weighted = setting
    beta = some_weights(count) if weighted else None
    return Case(
        lambda: lambda w: energy(w, s, distance, half_space, beta, reduction, block_size=block_size),
        lambda: (vectors(count, dim),),
        lambda w: reference_energy(w, s, distance, half_space, beta, reduction),
        checks,
        **options,
    )


def named(setting, *more):
    s, distance, half_space, weighted = setting
    words = ["half-space"] * half_space + ["weighted"] * weighted + [str(word) for word in more]
    return f"s={s} {distance} {' '.join(words)}"


class TestEnergy(Suite):
    cases = {
        **{
            named(setting, reduction, f"blocks of {block}"): measured(
                setting, 8, 4, "value", reduction, block, rtol=1e-12
            )
            for setting, reduction, block in itertools.product(SETTINGS, ["mean", "sum"], [None, 3, 100])
        },
        **{
            named(setting, f"derivatives in blocks of {block}"): measured(
                setting, 5, 3, "value gradient second", "sum", block, rtol=1e-12, fast=block is not None
            )
            for setting, block in itertools.product(SETTINGS[::2] + SETTINGS[1::6], [None, 3])
        },
        **{
            named((2.0, "euclidean", half_space, False), f"modes in blocks of {block}"): measured(
                (2.0, "euclidean", half_space, False), 10, 6, modes, "mean", block, rtol=1e-12, widened=True
            )
            for half_space, block, modes in [
                (False, None, "dtype autocast compile"),
                (False, 4, "dtype autocast compile"),
                (True, None, "dtype autocast compile export"),
                (True, 4, "dtype autocast compile"),
            ]
        },
    }


def test_class_energy_is_thesis_5_3_6():
    w, labels = vectors(6, 4).requires_grad_(), torch.tensor([1, 4, 4, 0])
    unit = w / w.norm(dim=1, keepdim=True)
    for s in (0.0, 2.0):
        terms = [
            (unit[y] - unit[j]).norm() ** -s if s else -(unit[y] - unit[j]).norm().log()
            for y in labels.tolist()
            for j in range(6)
            if j != y
        ]
        torch.testing.assert_close(class_energy(w, labels, s), torch.stack(terms).mean())
    assert gradcheck(lambda x: class_energy(x, labels, 1.0, "angular"), w)
    torch.testing.assert_close(class_energy(w, torch.arange(6)), energy(w))
    assert class_energy(w, labels[:0]) == 0
    with pytest.raises(TypeError, match="labels"):
        class_energy(w, labels.double())
    with pytest.raises(ValueError, match="num_classes"):
        class_energy(w[None], labels)


def test_batches_give_one_energy_per_set():
    w = vectors(2, 3, 5, 4)
    for block_size in (None, 2):
        values = energy(w, half_space=True, block_size=block_size)
        assert values.shape == (2, 3)
        torch.testing.assert_close(values[1, 2], energy(w[1, 2], half_space=True))


def test_half_space_is_the_energy_of_the_doubled_set():
    w = vectors(7, 5)
    for distance in ("euclidean", "angular"):
        doubled = torch.cat([w, -w])
        torch.testing.assert_close(energy(w, 1.5, distance, True), energy(doubled, 1.5, distance))


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 12), st.integers(2, 6), st.floats(0, 6), st.booleans(), st.integers(0, 2**20))
def test_invariant_to_rotation_scale_order_and_in_half_space_sign(count, dim, s, half_space, seed):
    w = vectors(count, dim, seed=seed)
    if float(torch.pdist(w / w.norm(dim=1, keepdim=True)).min()) < 1e-3:
        return
    value = energy(w, s, half_space=half_space)
    rotation, _ = torch.linalg.qr(vectors(dim, dim, seed=seed + 1))
    scales = vectors(count, 1, seed=seed + 2).exp()
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    tolerance = {"rtol": 1e-7, "atol": 1e-7}
    torch.testing.assert_close(energy(w @ rotation, s, half_space=half_space), value, **tolerance)
    torch.testing.assert_close(energy((w * scales)[order], s, half_space=half_space), value, **tolerance)
    if half_space:
        signs = vectors(count, 1, seed=seed + 3).sign()
        torch.testing.assert_close(energy(w * signs, s, half_space=True), value, **tolerance)


def test_logarithmic_energy_is_the_limit_of_small_powers():
    w = vectors(9, 4)
    for distance in ("euclidean", "angular"):
        limit = energy(w, 0.0, distance)
        errors = [abs(float((energy(w, s, distance) - 1) / s - limit)) for s in (1e-2, 1e-3, 1e-4)]
        assert errors[2] < 1e-3
        assert errors[0] > 5 * errors[1] > 25 * errors[2]


def test_known_configurations():
    simplex = torch.eye(5, dtype=torch.float64) - 0.2
    for s in (1.0, 2.0):
        assert energy(simplex, s).item() == pytest.approx(math.sqrt(2 * 5 / 4) ** -s)
    assert energy(torch.tensor([[1.0, 0], [-1, 0]]), 1.0).item() == pytest.approx(0.5)
    assert energy(torch.tensor([[1.0, 0], [-1, 0]]), 1.0, "angular").item() == pytest.approx(1 / math.pi)


def test_weights_of_one_change_nothing_and_get_no_gradient():
    w = vectors(6, 3)
    torch.testing.assert_close(energy(w, weights=torch.ones(6)), energy(w))
    beta = torch.full((6,), 2.0, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(energy(w, weights=beta), energy(w) / 4)
    assert not energy(w, weights=beta).requires_grad


def test_larger_than_the_dense_limit_takes_tiles_and_agrees():
    w = vectors(1100, 8).requires_grad_()
    assert w.shape[0] ** 2 > energies.DENSE_PAIRS
    dense = energies.dense
    unit = hs.functional.unit(w)
    kernel = energies.Kernel.build(2.0, "euclidean", False, None, torch.float64)
    (expected,) = torch.autograd.grad(dense(unit, None, kernel) / (1100 * 1099), w)
    (found,) = torch.autograd.grad(energy(w), w)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("block_size", [None, 2])
@pytest.mark.parametrize("beta", [0.1, 0.01, -0.1, 20.0])
def test_weighted_energies_overflow_only_where_they_are_large(beta, block_size):
    """Two orthogonal vectors at distance √2·β: (2β²)^(−6), 1.56e10 for β = 0.1."""
    w = torch.eye(2, 4).requires_grad_()
    value = energy(w, 12.0, weights=torch.full((2,), beta), block_size=block_size)
    assert value.item() == pytest.approx((2 * beta**2) ** -6, rel=1e-5)
    (gradient,) = torch.autograd.grad(value, w)
    assert gradient[0, 1].item() == pytest.approx(6 * (2 * beta**2) ** -6, rel=1e-5)


@pytest.mark.parametrize("block_size", [None, 2])
def test_a_large_power_of_small_weights_overflows_only_where_the_energy_does(block_size):
    """Opposite neurons of length 0.1 at distance 0.2: 0.2^(−40) is 9.1e27, and 0.1^(−40) is beyond float32."""
    w = torch.tensor([[1.0, 0.0], [-1.0, 1e-3]]).requires_grad_()
    value = energy(w, 40.0, weights=torch.full((2,), 0.1), block_size=block_size)
    exact = energy(w.double(), 40.0, weights=torch.full((2,), 0.1, dtype=torch.float64))
    assert value.item() == pytest.approx(exact.item(), rel=1e-4)
    (gradient,) = torch.autograd.grad(value, w)
    assert torch.isfinite(gradient).all()


def test_weights_of_opposite_signs_are_opposite_neurons():
    w = torch.randn(6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    w[1] = -w[0] + 1e-5 * w[2]
    beta = torch.tensor([1.0, -1.2, 0.7, 1.0, -1.0, 2.0], dtype=torch.float64)
    signs = beta.sign()[:, None]
    for s in (0.0, 2.0, 3.0):
        for half_space in (False, True):
            mirrored = energy(w * signs, s, half_space=half_space, weights=beta.abs())
            torch.testing.assert_close(energy(w, s, half_space=half_space, weights=beta), mirrored)
