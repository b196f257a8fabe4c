"""Bad input: finite where the mathematics allows, else an error that names argument, value and fix."""

import itertools
import math

import pytest
import torch

import hypersphere as hs
from hypersphere._core.registries import ANGULAR, MAGNITUDES

F = hs.functional
G, H = list(ANGULAR), list(MAGNITUDES)


@pytest.mark.parametrize(("h", "g"), list(itertools.product(H, G)))
def test_empty_batches_pass_through(h, g):
    layer = hs.nn.DecoupledConv2d(3, 4, 3, magnitude=h, angular=g)
    x = torch.zeros(0, 3, 6, 6, requires_grad=True)
    out = layer(x)
    assert out.shape == (0, 4, 4, 4)
    out.sum().backward()
    assert layer.weight.grad.eq(0).all()
    assert hs.nn.DecoupledLinear(3, 4, magnitude=h, angular=g)(torch.zeros(0, 3)).shape == (0, 4)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("g", G)
def test_nan_and_inf_stay_in_their_own_sample(bad, g):
    x = torch.randn(3, 2, 5, 5)
    w = torch.randn(3, 2, 3, 3)
    clean = F.decoupled_conv(x, w, padding=1, angular=g)
    x[1, 0, 2, 2] = bad
    out = F.decoupled_conv(x, w, padding=1, angular=g)
    assert not out[1].isfinite().all()  # not hidden
    torch.testing.assert_close(out[[0, 2]], clean[[0, 2]])


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("g", G)
def test_huge_and_tiny_inputs_have_their_angles_and_finite_gradients(scale, g):
    x = torch.randn(2, 4, 6, 6)
    w = torch.randn(3, 4, 3, 3)
    expected = F.decoupled_conv(x, w, padding=1, angular=g)
    big, kernel = (x * scale).requires_grad_(), (w / scale).requires_grad_()
    out = F.decoupled_conv(big, kernel, padding=1, angular=g)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    grads = torch.autograd.grad(out.square().sum() * 1e-6, (big, kernel))
    assert all(grad.isfinite().all() for grad in grads)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("h", "g"), list(itertools.product(["sphere", "tanh", "ball"], G)))
def test_the_largest_half_precision_numbers(dtype, h, g):
    x = torch.full((1, 16, 4, 4), min(torch.finfo(dtype).max, 1e36), dtype=dtype)  # norms must fit float32
    x[..., 2:] *= -1
    x.requires_grad_()
    w = torch.randn(3, 16, 3, 3).to(dtype).requires_grad_()
    out = F.decoupled_conv(x, w, padding=1, magnitude=h, angular=g)
    assert out.isfinite().all()
    assert out.abs().max() <= 1.01
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(out.float().sum(), (x, w)))


@pytest.mark.parametrize("g", G)
def test_parallel_and_opposite_patches(g):
    w = torch.randn(1, 2, 3, 3)
    x = torch.cat([w, -w, 2 * w]).requires_grad_()
    kernel = w.clone().requires_grad_()
    out = F.decoupled_conv(x, kernel, angular=g)
    torch.testing.assert_close(out.flatten(), torch.tensor([1.0, -1.0, 1.0]), atol=5e-4, rtol=0)
    assert all(grad.isfinite().all() for grad in torch.autograd.grad(out.sum(), (x, kernel)))


def test_one_class_one_sample_one_pixel():
    layer = hs.nn.SphereConv2d(1, 1, 1, angular="sigmoid")
    assert layer(torch.ones(1, 1, 1, 1)).abs().item() == pytest.approx(1.0)
    assert hs.nn.SphereLinear(1, 1)(torch.ones(1)).abs().item() == pytest.approx(1.0)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("shape", [(0,), (2, 0), (2, 3, 0)])
def test_vectors_without_entries_give_the_bias(shape):
    layer = hs.nn.DecoupledLinear(0, 4, bias=True, angular="linear")
    assert torch.equal(layer(torch.ones(shape)), layer.bias.expand(*shape[:-1], 4))


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda x, w: F.decoupled_conv(x[:, :1], w), r"shape \(2, 1, 5, 5\).*takes \(N, 3, \.\.\.\)"),
        (lambda x, w: F.decoupled_conv(x[0, 0], w), r"2 spatial dimensions"),
        (lambda x, w: F.decoupled_conv(x, w[0, 0]), r"weight has shape \(3, 3\): it must have 3 to 5"),
        (lambda x, w: F.decoupled_conv(x, w, dilation=3), r"window of 3 \(dilation 3\) does not fit into 5"),
        (lambda x, w: F.decoupled_conv(x, w, stride=0), r"stride=0 must be at least 1"),
        (lambda x, w: F.decoupled_conv(x, w, stride=(1, 1, 1)), r"stride=\(1, 1, 1\) must be a number or 2 numbers"),
        (lambda x, w: F.decoupled_conv(x, w, padding=-1), r"padding=-1 must be at least 0"),
        (lambda x, w: F.decoupled_conv(x, w, padding="some"), r"padding='some' is unknown.*'same'"),
        (lambda x, w: F.decoupled_conv(x, w, padding="same", stride=2), r"padding='same' needs stride 1"),
        (lambda x, w: F.decoupled_conv(x, w, magnitude="sfere"), r"magnitude='sfere'.*did you mean 'sphere'"),
        (lambda x, w: F.decoupled_conv(x, w, angular="cos"), r"angular='cos' is unknown"),
        (lambda x, w: F.decoupled_conv(x, w, weighted="yes"), r"weighted='yes' is unknown.*'linear'"),
        (lambda x, w: F.decoupled_linear(x, w[:, :, 0, 0]), r"takes \(\.\.\., 3\)"),
        (lambda x, w: F.decoupled_conv(x, w, torch.ones(1)), r"bias has shape \(1,\).*each of the 4 outputs"),
        (lambda x, w: F.decoupled_conv(x, w, torch.ones(4, 1)), r"bias has shape \(4, 1\).*each of the 4 outputs"),
        (lambda x, w: F.decoupled_linear(x, x[0, 0], torch.ones(1)), r"bias has shape \(1,\).*each of the 5 outputs"),
        (lambda x, w: F.decoupled_conv_transpose(x, w[:3], torch.ones(4)), r"bias has shape \(4,\).*of the 3 outputs"),
        (lambda x, w: F.decoupled_conv(x, w[:, :1], groups=3), r"groups=3 does not divide.* weight, 4 "),
        (lambda x, w: F.decoupled_conv_transpose(x, w[:3], groups=2), r"groups=2 does not divide.* weight, 3 "),
        (lambda x, w: hs.nn.DecoupledConv2d(3, 4, 3, weighted="both"), r"weighted='both' is unknown"),
        (lambda x, w: hs.nn.SphereConv2d(3, 4, 3, angular="tan"), r"angular='tan' is unknown"),
        (lambda x, w: hs.nn.SphereConv2d(3, 4, 0), r"kernel_size=0 must be at least 1"),
        (lambda x, w: hs.nn.SphereConvTranspose2d(3, 4, (1, -2)), r"kernel_size=-2 must be at least 1"),
        (lambda x, w: hs.nn.SphereConv2d(3, 4, 3, stride=0), r"stride=0 must be at least 1"),
    ],
)
def test_wrong_values_are_named(run, message):
    with pytest.raises(ValueError, match=message):
        run(torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3))


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (lambda x, w: F.decoupled_conv(x.long(), w), r"x has dtype torch.int64"),
        (lambda x, w: F.decoupled_conv(x, w.double()), r"x is torch.float32 and weight torch.float64: cast one"),
        (lambda x, w: F.decoupled_conv(x, w, stride=1.5), r"stride=1.5 must be an int"),
        (lambda x, w: F.decoupled_conv(x, w, [1.0] * 4), r"bias must be a torch.Tensor, not list"),
        (lambda x, w: F.decoupled_conv(x, w, angular=3), r"angular=3 is neither"),
        (lambda x, w: F.decoupled_conv(x, w, magnitude=None), r"magnitude=None is neither"),
        (lambda x, w: hs.nn.DecoupledConv2d(3, 4, 3, magnitude=3), r"magnitude=3 is neither"),
        (lambda x, w: hs.nn.DecoupledConv2d(3, 4, 3, magnitude=hs.magnitude.Tanh), r"h\(norm\): call the class"),
        (lambda x, w: hs.nn.SphereConv2d(3, 4, 3)([x]), r"x must be a torch.Tensor, not list"),
        (
            lambda x, w: hs.nn.DecoupledConv2d(3, 4, 3, angular=hs.angular.Cosine),
            r"nor an object with.* from_cos",
        ),
    ],
)
def test_wrong_types_are_named(run, message):
    with pytest.raises(TypeError, match=message):
        run(torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3))
