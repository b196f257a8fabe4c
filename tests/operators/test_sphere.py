"""Norms, unit vectors and angles: values, gradients and the edges."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

import hypersphere as hs

F = hs.functional


def test_angle_is_arccos_and_arcsin_in_float64():
    c = torch.linspace(-1, 1, 101, dtype=torch.float64)
    np.testing.assert_allclose(F.angle(c).numpy(), [math.acos(v) for v in c.tolist()], atol=1e-15)
    np.testing.assert_allclose(F.arcsin(c).numpy(), [math.asin(v) for v in c.tolist()], atol=1e-15)


def test_angle_is_differentiable_twice():
    c = (torch.rand(8, dtype=torch.float64) * 1.8 - 0.9).requires_grad_()
    for function in (F.angle, F.arcsin):
        assert gradcheck(function, c)
        assert gradgradcheck(function, c)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("edge", [1.0, -1.0])
def test_the_gradient_at_the_edge_is_the_documented_one(dtype, edge):
    c = torch.tensor([edge], dtype=dtype, requires_grad=True)
    (grad,) = torch.autograd.grad(F.angle(c).sum(), c)
    computing = torch.float64 if dtype == torch.float64 else torch.float32
    expected = torch.tensor(-(torch.finfo(computing).eps ** -0.5)).to(dtype)
    assert grad.dtype == dtype
    assert grad.item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_nothing_jumps_next_to_the_edge(dtype):
    below = torch.nextafter(torch.ones(1, dtype=dtype), torch.zeros(1, dtype=dtype)).requires_grad_()
    at = torch.ones(1, dtype=dtype, requires_grad=True)
    slopes = [torch.autograd.grad(F.angle(c).sum(), c)[0].item() for c in (below, at)]
    assert slopes[0] == pytest.approx(slopes[1], rel=1e-3)


def test_rounding_beyond_one_counts_as_one_and_nan_stays_nan():
    assert F.angle(torch.tensor([1.0000002, -1.0000002])).tolist() == pytest.approx([0.0, math.pi])
    assert F.angle(torch.tensor([math.nan])).isnan().all()


@settings(deadline=None, max_examples=30)
@given(st.integers(-35, 35), st.integers(1, 6), st.integers(0, 10_000))
def test_unit_and_norm_hold_at_every_scale(exponent, d, seed):
    w = torch.randn(3, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    scaled = (w * 10.0**exponent).float()
    if not scaled.abs().amax(1).gt(1e-37).all():
        return
    np.testing.assert_allclose(F.unit(scaled).double().norm(dim=1), np.ones(3), rtol=1e-5)
    np.testing.assert_allclose(F.norm(scaled).double() * 10.0**-exponent, w.norm(dim=1), rtol=1e-4)


def test_unit_and_norm_are_differentiable_twice_and_zero_at_zero():
    w = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    for function in (F.unit, F.norm):
        assert gradcheck(function, w)
        assert gradgradcheck(function, w)
        zero = torch.zeros(2, 4, requires_grad=True)
        out = function(zero)
        (grad,) = torch.autograd.grad(out.sum(), zero)
        assert out.eq(0).all()
        assert grad.eq(0).all()


def test_norm_over_several_dimensions_and_empty():
    w = torch.randn(2, 3, 4)
    torch.testing.assert_close(F.norm(w, (1, 2)), torch.linalg.vector_norm(w, dim=(1, 2)))
    assert F.unit(torch.zeros(0, 3)).shape == (0, 3)
    assert F.norm(torch.zeros(0, 3)).shape == (0,)


@pytest.mark.parametrize("function", [F.angle, F.arcsin, F.unit, F.norm])
def test_integers_are_refused(function):
    with pytest.raises(TypeError, match=r"int64.*floating-point"):
        function(torch.ones(2, dtype=torch.long))
