"""The sigmoid g with a tiny k, nearly a step at π/2: the value of the equation, and a gradient that is never NaN."""

import math

import pytest
import torch
from torch import nn

import hypersphere as hs
from hypersphere.kernels import LAUNCHES

F = hs.functional
TINY = {torch.float32: (1e-8, 1e-12, 1e-20, 1e-30, 1e-36), torch.float64: (1e-60, 1e-120, 1e-200, 1e-300)}
LAYERS = {
    "linear": (lambda g: hs.nn.SphereLinear(6, 4, angular=g), (5, 6), None),
    "conv": (lambda g: hs.nn.SphereConv2d(2, 4, 3, angular=g), (2, 2, 5, 5), "grad_kernel"),
    "recurrent": (lambda g: hs.nn.DecoupledRNN(3, 4, angular=g), (2, 3, 3), "recurrent_backward_kernel"),
    "head": (lambda g: hs.losses.GASoftmax(6, 40, 2, angular=g, chunk=32), (5, 6), "gradient_kernel"),
}


@pytest.mark.parametrize(("dtype", "k"), [(dtype, k) for dtype, every in TINY.items() for k in every])
def test_value_and_gradient_are_those_of_the_equation(dtype, k):
    """Of a = asin c: t = tanh(a/2k) and k·∂t/∂k = −(1 − t²)·a/2k, where t is neither −1 nor 1, and far from there."""
    units = [0.0, 0.4, -1.0, 3.0, -8.0, -1e-5 / k, 0.5 / k, -math.pi / 2 / k]
    c = torch.tensor([unit * k for unit in units], dtype=dtype).sin().requires_grad_()
    curvature = torch.tensor([k], dtype=dtype, requires_grad=True)
    g = F.angular(c, "sigmoid", curvature)
    expected = [math.tanh(unit / 2) for unit in units]
    torch.testing.assert_close(g, torch.tensor(expected, dtype=dtype), rtol=1e-5, atol=0.0)
    along_c, along_k = torch.autograd.grad(g.sum(), (c, curvature))
    assert along_c.isfinite().all()
    slopes = [-(1 - t * t) * unit / 2 for t, unit in zip(expected, units, strict=True)]
    assert (along_k * curvature).item() == pytest.approx(math.fsum(slopes), rel=1e-4, abs=1e-5)


def test_angles_beyond_pi():
    theta, k = torch.tensor([0.0, 1.5, 1.6, 3.0, 12.0], requires_grad=True), torch.tensor(1e-30, requires_grad=True)
    g = F.angular_from_angle(theta, "sigmoid", k)
    assert g.tolist() == [1.0, 1.0, -1.0, -1.0, -1.0]
    assert [grad.abs().max().item() for grad in torch.autograd.grad(g.sum(), (theta, k))] == [0.0, 0.0]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("k", [1e-30, 1e-37, 0.0])
@pytest.mark.parametrize("share", ["filter", "layer"])
def test_a_learned_k(name, k, share):
    assert_finite(name, k, share)


@pytest.mark.parametrize("name", [name for name, (_, _, kernel) in LAYERS.items() if kernel])
@pytest.mark.parametrize("k", [1e-30, 0.0])
def test_a_learned_k_in_kernels(name, k, on_kernels):
    pytest.importorskip("triton")
    LAUNCHES.clear()
    assert_finite(name, k, "filter")
    assert LAUNCHES[LAYERS[name][2]] > 0


def assert_finite(name, k, share):
    """Value and gradients; a k that falls on, to where exp r rounds to 0, stays positive."""
    make, shape, _ = LAYERS[name]
    layer: nn.Module = make(hs.angular.Sigmoid(learnable=True, share=share))
    for parameter, value in layer.named_parameters():
        if parameter.endswith("raw_k"):
            nn.init.constant_(value, math.log(k) if k else -200.0)
    x = torch.randn(shape)
    x[0] = 0.0
    x.requires_grad_()
    out = layer(x, torch.arange(5)) if name == "head" else layer(x)
    out = out[0] if isinstance(out, tuple) else out
    out.sum().backward()
    for value in (out, x.grad, *(p.grad for p in layer.parameters())):
        assert value.isfinite().all()
