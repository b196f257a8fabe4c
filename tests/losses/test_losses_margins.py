"""ψ and its relatives: values from the definition, monotone, continuous, with exact derivatives at the knots."""

import math

import loss_reference as ref
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hypersphere as hs
from hypersphere.functional.margins import additive_angle, clipped_multiple

THETA = torch.linspace(0, math.pi, 2001, dtype=torch.float64)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 7, 1.5, 2.7])
def test_psi_is_its_definition_continuous_and_decreasing(m):
    value = hs.functional.psi(THETA.cos(), m)
    expected = [ref.psi(t, m) for t in THETA.tolist()]
    np.testing.assert_allclose(value.numpy(), expected, atol=2e-11)
    steps = value.diff()
    assert (steps < 1e-12).all()
    assert steps.abs().max() < m * math.pi / 2000 * 1.01  # slope of at most m: no jump
    assert value[0] == pytest.approx(1)
    if float(m).is_integer():
        assert value[-1] == pytest.approx(1 - 2 * m)


def psi_slope(theta, m):
    """dψ/dc = (−1)^k·m·sin(mθ)/sin θ, with its limits m² at 0 and, for a whole m, at π too."""
    if abs(math.sin(theta)) < 1e-9:
        return m * m
    k = min(math.floor(m * theta / math.pi), math.ceil(m) - 1)
    return (-1) ** k * m * math.sin(m * theta) / math.sin(theta)


@pytest.mark.parametrize("m", [2, 3, 4, 6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_psi_has_the_exact_derivative_at_the_knots(m, dtype):
    angles = [j * math.pi / m for j in range(m + 1)] + [0.3, 1.1, 2.9]
    c = torch.tensor([math.cos(t) for t in angles], dtype=dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(hs.functional.psi(c, m).sum(), c)
    expected = [psi_slope(t, m) for t in angles]
    np.testing.assert_allclose(slope.numpy(), expected, atol=1e-4 if dtype == torch.float32 else 1e-10)


@pytest.mark.parametrize("m", [2, 3, 4])
def test_psi_gradient_is_the_finite_difference_across_the_knots(m):
    h = 1e-6
    for c in [math.cos(j * math.pi / m) for j in range(1, m)]:
        t = torch.tensor([c - h, c + h], dtype=torch.float64)
        low, high = hs.functional.psi(t, m)
        x = torch.tensor(c, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(hs.functional.psi(x, m), x)
        assert slope.item() == pytest.approx((high - low).item() / (2 * h), abs=1e-4)


@given(m=st.one_of(st.integers(1, 8), st.floats(1, 8)), a=st.floats(0, math.pi), b=st.floats(0, math.pi))
@settings(deadline=None, max_examples=30)
def test_psi_never_increases_in_the_angle(m, a, b):
    low, high = sorted((a, b))
    c = torch.tensor([math.cos(low), math.cos(high)], dtype=torch.float64)
    near, far = hs.functional.psi(c, m)
    assert near >= far - 1e-7
    assert near <= 1 + 1e-12


@pytest.mark.parametrize("m", [1, 2, 5, 1.5])
def test_multiple_angle(m):
    np.testing.assert_allclose(hs.functional.multiple_angle(THETA.cos(), m), np.cos(m * THETA.numpy()), atol=2e-11)


def test_square_cosine_folds_the_same_way():
    value = hs.functional.psi(THETA.cos(), 3, kind="square_cosine")
    expected = [ref.g_margin("square_cosine", t, 3) for t in THETA.tolist()]
    np.testing.assert_allclose(value.numpy(), expected, atol=1e-11)
    assert (value.diff() < 1e-12).all()


def test_arcface_margin_decreases_past_its_continuation():
    drawn = torch.full_like(THETA, -0.2)  # ElasticFace may draw it: θ − 0.2 stays below π, nothing is to be continued
    torch.testing.assert_close(additive_angle(THETA.cos(), drawn), (THETA - 0.2).cos())
    torch.testing.assert_close(additive_angle(THETA.cos(), -0.2), (THETA - 0.2).cos())
    value = additive_angle(THETA.cos(), 0.5)
    np.testing.assert_allclose(value.numpy(), [ref.face("ArcFace", t, True, 0.5) for t in THETA.tolist()], atol=1e-9)
    assert (value.diff() < 0).all()


def test_clipped_multiple():
    value = clipped_multiple(THETA.cos(), 1.5)
    np.testing.assert_allclose(value.numpy(), [ref.face("v1", t, True, 1.5) for t in THETA.tolist()], atol=1e-9)


@pytest.mark.parametrize("rule", [lambda c: hs.functional.psi(c, 1.5), lambda c: additive_angle(c, 0.5)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_through_the_angle_the_gradient_is_finite_at_the_ends(rule, dtype):
    c = torch.tensor([-1.0, 1.0], dtype=dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(rule(c).sum(), c)
    assert torch.isfinite(slope).all()
    assert slope.dtype == dtype


@pytest.mark.parametrize("bad", [0.5, 0, -2, math.nan, math.inf])
def test_psi_refuses_margins_below_one(bad):
    with pytest.raises(ValueError, match="at least 1"):
        hs.functional.psi(torch.zeros(2), bad)


def test_psi_refuses_other_types():
    with pytest.raises(TypeError, match="margin='4'"):
        hs.functional.psi(torch.zeros(2), "4")
    with pytest.raises(TypeError, match="floating-point"):
        hs.functional.psi(torch.zeros(2, dtype=torch.int64), 4)
