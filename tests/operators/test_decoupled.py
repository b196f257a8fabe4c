"""The identities between operators, zero patches, paddings, rules of users; values are in test_operators.py."""

import itertools

import pytest
import torch
import torch.nn.functional as TF
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_reference import ANGULAR, MAGNITUDE
from torch.autograd import gradcheck, gradgradcheck

import hypersphere as hs

F = hs.functional
G, H, WEIGHTED = sorted(ANGULAR), sorted(MAGNITUDE), [None, "linear", "product", "separate"]


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    x = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return x.requires_grad_()


@pytest.mark.parametrize("share", ["filter", "layer"])
def test_gradients_of_learnable_parameters(share):
    layer = hs.nn.DecoupledConv2d(
        2, 3, 3, padding=1, bias=True, affine=True, dtype=torch.float64,
        magnitude=hs.magnitude.Tanh(rho=0.7), angular=hs.angular.Sigmoid(learnable=True, share=share),
    )  # fmt: skip
    layer.eval()
    parameters = dict(layer.named_parameters())
    x = draw(2, 2, 4, 4)

    def run(x, *values):
        return torch.func.functional_call(layer, dict(zip(parameters, values, strict=True)), (x,))

    assert set(parameters) == {"weight", "bias", "scale", "shift", "magnitude.raw_rho", "angular.raw_k"}
    assert gradcheck(run, (x, *parameters.values()), fast_mode=True)
    assert gradgradcheck(run, (x, *parameters.values()), fast_mode=True)


def test_gradients_are_the_same_where_a_second_derivative_will_be_asked_for():
    """gradgradcheck does not tell: it only compares second derivatives with what the first of such a pass are."""
    x, w = draw(2, 2, 4, 4), draw(3, 2, 3, 3, seed=1)
    for g, h, weighted in itertools.product(G, H, (None, "separate")):
        loss = F.decoupled_conv(x, w, padding=1, magnitude=h, angular=g, weighted=weighted).square().sum()
        twice = torch.autograd.grad(loss, (x, w), create_graph=True)
        for found, expected in zip(twice, torch.autograd.grad(loss, (x, w)), strict=True):
            assert torch.allclose(found, expected), (g, h, weighted)


def test_cosine_sphereconv_is_the_convolution_of_normalised_patches_and_kernels():
    x, w = draw(2, 3, 6, 6), draw(5, 3, 3, 3, seed=1)
    patches = TF.unfold(x, 3, padding=1)
    cos = torch.einsum("kd,ndl->nkl", TF.normalize(w.flatten(1), dim=1), TF.normalize(patches, dim=1))
    torch.testing.assert_close(F.decoupled_conv(x, w, padding=1), cos.unflatten(2, (6, 6)))


@pytest.mark.parametrize("transposed", [False, True])
def test_linearly_weighted_linearconv_is_the_convolution_gradient_included(transposed):
    x, w = draw(2, 4, 6, 6), draw(4, 2, 3, 3, seed=1)
    with torch.no_grad():
        x[:, :, :4, :4] = 0  # zero patches too
    ours = F.decoupled_conv_transpose if transposed else F.decoupled_conv
    torchs = TF.conv_transpose2d if transposed else TF.conv2d
    a = ours(x, w, stride=2, padding=1, groups=2, magnitude="linear", weighted="linear")
    b = torchs(x, w, stride=2, padding=1, groups=2)
    seed = torch.randn_like(b)
    torch.testing.assert_close(a, b)
    torch.testing.assert_close(torch.autograd.grad(a, (x, w), seed), torch.autograd.grad(b, (x, w), seed))


@pytest.mark.parametrize("g", G)
def test_ball_and_linear_as_segment(g):
    x, w = draw(2, 2, 5, 5), draw(3, 2, 3, 3, seed=1)

    def run(h):
        return F.decoupled_conv(x, w, magnitude=h, angular=g)

    fixed = {"learnable": False, "running": False}
    ball = run(hs.magnitude.Ball(1.5, rho=2.0, **fixed))
    torch.testing.assert_close(ball, run(hs.magnitude.Segment(0.75, 0.0, rho=2.0, **fixed)))
    torch.testing.assert_close(run("linear"), run(hs.magnitude.Segment(1.0, 1.0, rho=2.0, **fixed)))


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(G), st.integers(-30, 30), st.integers(-30, 30), st.integers(0, 1000))
def test_sphereconv_does_not_see_the_scale_of_input_or_kernel(g, a, b, seed):
    x, w = draw(1, 2, 5, 5, seed=seed).float(), draw(3, 2, 3, 3, seed=seed + 1).float()
    scaled = F.decoupled_conv(x * 10.0**a, w * 10.0**b, padding=1, angular=g)
    torch.testing.assert_close(scaled, F.decoupled_conv(x, w, padding=1, angular=g), rtol=1e-4, atol=3e-5)


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(G), st.integers(0, 1000))
def test_bounded_by_one(g, seed):
    out = F.decoupled_conv(draw(1, 2, 5, 5, seed=seed).float(), draw(3, 2, 3, 3, seed=seed + 1).float(), angular=g)
    assert out.abs().max() <= 1 + 1e-6


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("kernel", [(3, 3), (2, 4), (1, 3)])
@pytest.mark.parametrize("dilation", [1, 2])
def test_named_paddings(padding, kernel, dilation):
    x, w = draw(2, 3, 9, 8), draw(4, 3, *kernel, seed=1)
    out = F.decoupled_conv(x, w, padding=padding, dilation=dilation, magnitude="linear", weighted="linear")
    torch.testing.assert_close(out, TF.conv2d(x, w, padding=padding, dilation=dilation))
    sphere = F.decoupled_conv(x, w, padding=padding, dilation=dilation)
    norms = TF.conv2d(x * x, torch.ones(1, 3, *kernel, dtype=x.dtype), padding=padding, dilation=dilation).sqrt()
    torch.testing.assert_close(sphere, out / norms / w.flatten(1).norm(dim=1).view(-1, 1, 1))


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("padding", [1, (1, 2), "same"])
def test_every_padding_mode_of_conv2d(mode, padding):
    x = draw(2, 3, 7, 7)
    ours = hs.nn.DecoupledConv2d(
        3,
        4,
        3,
        padding=padding,
        padding_mode=mode,
        bias=True,
        dtype=torch.float64,
        magnitude="linear",
        weighted="linear",
    )
    plain = torch.nn.Conv2d(3, 4, 3, padding=padding, padding_mode=mode, dtype=torch.float64)
    ours.load_state_dict(plain.state_dict())
    torch.testing.assert_close(ours(x), plain(x))


@pytest.mark.parametrize("g", G)
def test_zero_patches_and_zero_kernels(g):
    x, w = draw(1, 2, 8, 8), draw(3, 2, 3, 3, seed=1)
    with torch.no_grad():
        x[..., :5, :5] = 0
        w[1] = 0
    for h, weighted in itertools.product(H, WEIGHTED):
        out = F.decoupled_conv(x, w, magnitude=h, angular=g, weighted=weighted)
        grads = torch.autograd.grad(out.square().sum() + out.sum(), (x, w))
        assert out[..., 0, 0].eq(0).all(), h
        assert out[:, 1].eq(0).all(), h
        assert all(grad.isfinite().all() for grad in grads), h
        if h == "sphere" or g != "cosine":
            assert grads[0][..., :3, :3].eq(0).all(), h


@pytest.mark.parametrize(("h", "slope"), [("linear", 1.0), ("tanh", 1.0), ("ball", 1.0), ("log", 1.0), ("mix", 2.0)])
def test_the_gradient_of_a_zero_patch_is_the_limit(h, slope):
    x = torch.zeros(1, 2, 3, 3, dtype=torch.float64, requires_grad=True)
    w = draw(1, 2, 3, 3, seed=1)
    (grad,) = torch.autograd.grad(F.decoupled_conv(x, w, magnitude=h).sum(), x)
    torch.testing.assert_close(grad, slope * w.detach() / w.detach().norm())


def test_user_written_rules_plug_in():
    class Cubed:
        def from_cos(self, c):
            return c**3

    class Root:
        def __call__(self, n):
            return (n + 1).sqrt() - 1

    x, w = draw(2, 2, 5, 5), draw(3, 2, 3, 3, seed=1)
    cos = F.decoupled_conv(x, w)
    norms = F.patch_norm(x, 3)
    out = F.decoupled_conv(x, w, magnitude=Root(), angular=Cubed())
    torch.testing.assert_close(out, ((norms + 1).sqrt() - 1) * cos**3)
    layer = hs.nn.DecoupledConv2d(2, 3, 3, magnitude=Root(), angular=Cubed(), dtype=torch.float64)
    layer(x).sum().backward()
    assert layer.weight.grad.isfinite().all()
    assert gradcheck(lambda x, w: F.decoupled_conv(x, w, magnitude=Root(), angular=Cubed()), (x, w), fast_mode=True)


def test_a_subclass_of_a_built_in_g_keeps_its_own_formula():
    class Halved(hs.angular.Linear):
        def from_cos(self, c):
            return super().from_cos(c) / 2

    x, w = draw(1, 2, 4, 4), draw(3, 2, 3, 3, seed=1)
    halved = F.decoupled_conv(x, w, angular=Halved())
    torch.testing.assert_close(halved, F.decoupled_conv(x, w, angular="linear") / 2)


def test_affine_and_bias():
    layer = hs.nn.SphereConv2d(2, 3, 3, bias=True, affine=True, dtype=torch.float64)
    x = draw(1, 2, 4, 4)
    with torch.no_grad():
        for parameter in (layer.scale, layer.shift, layer.bias):
            parameter.copy_(torch.randn(3))
    column = (-1, 1, 1)
    plain = F.decoupled_conv(x, layer.weight)
    expected = plain * layer.scale.view(column) + layer.shift.view(column) + layer.bias.view(column)
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("alpha", [0.5, 3.0])
@pytest.mark.parametrize("g", G)
def test_alpha_scales_the_sphere(g, alpha):
    x, w = draw(1, 2, 4, 4), draw(3, 2, 3, 3, seed=1)
    out = F.decoupled_conv(x, w, magnitude=hs.magnitude.Sphere(alpha), angular=g)
    torch.testing.assert_close(out, alpha * F.decoupled_conv(x, w, angular=g))
