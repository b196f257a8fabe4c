"""The sigmoid g with a large k, nearly linear in the angle: value and gradients in float32 against float64."""

import math

import pytest
import torch

import hypersphere as hs

F = hs.functional
CURVATURES = [1.9, 2.1, 4.0, 20.0, 100.0, 1e3, 1e5]


def inputs(channels):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(64, 10, generator=generator, dtype=torch.float64).float().double()
    w = torch.randn(channels, 10, generator=generator, dtype=torch.float64).float().double()
    w[: channels // 2] = x[: channels // 2] + 0.1 * w[: channels // 2]  # large cosines too
    seed = torch.randn(64, channels, generator=generator, dtype=torch.float64).float().double()
    return x, w.float().double(), seed


def reference(x, w, seed, k):
    """g and its gradients in float64, straight from the equation: what cancels for a large k leaves 1e-6 at worst."""
    x, w, k = (t.clone().requires_grad_() for t in (x, w, k))
    cos = (x / x.norm(dim=1, keepdim=True)) @ (w / w.norm(dim=1, keepdim=True)).T
    g = torch.tanh(cos.clamp(-1, 1).asin() / (2 * k)) / torch.tanh(math.pi / (4 * k))
    return g.detach(), *torch.autograd.grad(g, (x, w, k), seed)


class Rule:
    def __init__(self, k):
        self.k = k

    def from_cos(self, c):
        return F.angular(c, "sigmoid", self.k)

    def closed_form(self):
        return "sigmoid", self.k


def relative(found, expected):
    return ((found.double() - expected).norm() / expected.norm()).item()


@pytest.mark.parametrize("k", CURVATURES)
@pytest.mark.parametrize("learnable", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_value_and_gradients(k, learnable, plain):
    x64, w64, seed = inputs(8)
    expected = reference(x64, w64, seed, torch.full((8,), k, dtype=torch.float64))
    x, w = x64.float().requires_grad_(), w64.float().requires_grad_()
    curvature = torch.full((8,), k, requires_grad=True) if learnable else k
    wanted = (x, w, curvature) if learnable else (x, w)

    def total(x, w, curvature=k):
        out = F.decoupled_linear(x, w, angular=Rule(curvature))
        return (out * seed.float()).sum(), out

    if plain:
        grads, out = torch.func.grad(total, tuple(range(len(wanted))), has_aux=True)(*(t.detach() for t in wanted))
    else:
        scalar, out = total(*wanted)
        grads = torch.autograd.grad(scalar, wanted)
    assert relative(out, expected[0]) < 7e-7
    for found, exact in zip(grads, expected[1:], strict=False):
        assert relative(found, exact) < 2e-5


@pytest.mark.parametrize("k", [1.9, 2.1, 20.0, 49.0, 51.0])
def test_float64_gradients_have_its_digits(k):
    x, w, seed = inputs(8)
    curvature = torch.full((8,), k, dtype=torch.float64)
    _, *exact = reference(x, w, seed, curvature)
    leaves = [t.clone().requires_grad_() for t in (x, w, curvature)]
    found = torch.autograd.grad(F.decoupled_linear(leaves[0], leaves[1], angular=Rule(leaves[2])), leaves, seed)
    for a, b in zip(found, exact, strict=True):
        assert relative(a, b) < 1e-11


@pytest.mark.parametrize("plain", [False, True])
def test_steep_and_flat_filters_in_one_layer(plain):
    x64, w64, seed = inputs(4)
    k64 = torch.tensor([0.1, 0.5, 30.0, 3e3], dtype=torch.float64)
    _, *exact = reference(x64, w64, seed, k64)

    def total(x, w, k):
        return (F.decoupled_linear(x, w, angular=Rule(k)) * seed.float()).sum()

    leaves = [t.float().requires_grad_() for t in (x64, w64, k64)]
    if plain:
        found = torch.func.grad(total, (0, 1, 2))(*(t.detach() for t in leaves))
    else:
        found = torch.autograd.grad(total(*leaves), leaves)
    for channel in range(4):
        assert found[2][channel].item() == pytest.approx(exact[2][channel].item(), rel=2e-4)
    assert relative(found[0], exact[0]) < 2e-5
    assert relative(found[1], exact[1]) < 2e-5


def test_the_gradient_of_k_from_the_angle_beyond_pi():
    theta = torch.linspace(0, 9, 40, dtype=torch.float64)
    for k in (0.3, 2.0, 50.0, 500.0):
        value = torch.tensor(k, dtype=torch.float64, requires_grad=True)
        (found,) = torch.autograd.grad(F.angular_from_angle(theta, "sigmoid", value).sum(), value)
        step = 1e-3 * k
        ends = [F.angular_from_angle(theta, "sigmoid", k + side * step).sum().item() for side in (-1, 1)]
        assert found.item() == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-4, abs=1e-12)
        small = torch.tensor(k, requires_grad=True)
        (single,) = torch.autograd.grad(F.angular_from_angle(theta.float(), "sigmoid", small).sum(), small)
        assert single.item() == pytest.approx(found.item(), rel=1e-4)


def test_a_curvature_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match=r"k holds -1\.0: every curvature must be > 0"):
        F.angular(torch.ones(2), "sigmoid", torch.tensor(-1.0))
    with pytest.raises(ValueError, match=r"k holds 0\.0"):
        F.angular_from_angle(torch.ones(2), "sigmoid", torch.tensor([0.5, 0.0]))
