"""Inputs near the ends of float32 and scales side by side: values and gradients against float64 loops."""

import copy
import itertools

import numpy as np
import pytest
import torch
from operator_reference import ANGULAR, MAGNITUDE, convolution

import hypersphere as hs

F = hs.functional
G, H = sorted(ANGULAR), sorted(MAGNITUDE)
UNBOUNDED = ["linear", "segment", "mix"]


def as_float64(x, w, seed, **rules):
    """Value and gradients of the operator where nothing is near the end of anything."""
    x, w = x.double().requires_grad_(), w.double().requires_grad_()
    out = F.decoupled_conv(x, w, **rules)
    return [out, *torch.autograd.grad(out, (x, w), seed.double())]


@pytest.mark.parametrize(("large", "small"), [(1e30, 1.0), (1.0, 1e-30), (1e38, 1e-37)])
@pytest.mark.parametrize("g", G)
def test_small_patches_next_to_large_ones(large, small, g):
    x = torch.full((2, 1, 1, 8), small)
    x[0, 0, 0, 0] = large
    w = torch.ones(1, 1, 1, 2)
    expected = convolution(x.double().numpy(), w.double().numpy(), "sphere", g)
    np.testing.assert_allclose(F.decoupled_conv(x, w, angular=g).numpy(), expected, atol=5e-4)
    norms = np.sqrt(x[..., :-1].double().numpy() ** 2 + x[..., 1:].double().numpy() ** 2)
    np.testing.assert_allclose(F.patch_norm(x, (1, 2)).numpy(), norms, rtol=2e-7)


@pytest.mark.parametrize(("large", "small"), [(1e30, 1.0), (1.0, 1e-30)])
def test_small_patches_next_to_large_ones_by_plain_operations(large, small):
    x = torch.full((2, 1, 8), small)
    x[0, 0, 0] = large
    function = torch.compile(F.patch_norm, backend="aot_eager", fullgraph=True)
    norms = np.sqrt(x[..., :-1].double().numpy() ** 2 + x[..., 1:].double().numpy() ** 2)
    np.testing.assert_allclose(function(x, 2).numpy(), norms, rtol=1e-6)
    mapped = torch.func.vmap(lambda one: F.patch_norm(one[None], 2)[0])(x)
    np.testing.assert_allclose(mapped.numpy(), norms, rtol=1e-6)


@pytest.mark.parametrize(("h", "g"), list(itertools.product(H, G)))
@pytest.mark.parametrize("scale", [1e-30, 1e14, 1e17, 1e19, 1e25, 1e36])
def test_gradients_at_every_scale(h, g, scale):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, 4, 4, 4, generator=generator) * scale
    w = torch.randn(3, 4, 3, 3, generator=generator)
    seed = torch.randn(2, 3, 2, 2, generator=generator) * 1e-3  # keeps what is 1/scale in range
    expected = as_float64(x, w, seed, magnitude=h, angular=g)
    x.requires_grad_()
    w.requires_grad_()
    out = F.decoupled_conv(x, w, magnitude=h, angular=g)
    for a, b in zip([out, *torch.autograd.grad(out, (x, w), seed)], expected, strict=True):
        assert a.dtype == torch.float32
        assert (a.double() - b).abs().max() <= 2e-5 * b.abs().max()


@pytest.mark.parametrize(("h", "g"), list(itertools.product(UNBOUNDED, ["linear", "sigmoid", "square_cosine"])))
@pytest.mark.parametrize("scale", [1e20, 1e30])
def test_gradients_of_an_unbounded_h_by_plain_operations(h, g, scale):
    generator = torch.Generator().manual_seed(1)
    x, w = torch.randn(4, 6, generator=generator) * scale, torch.randn(3, 6, generator=generator)
    seed = torch.randn(4, 3, generator=generator) * 1e-3

    def total(x, w):
        return (F.decoupled_linear(x, w, magnitude=h, angular=g) * seed).sum()

    x64, w64 = x.double().requires_grad_(), w.double().requires_grad_()
    expected = torch.autograd.grad((F.decoupled_linear(x64, w64, magnitude=h, angular=g) * seed).sum(), (x64, w64))
    for a, b in zip(torch.func.grad(total, (0, 1))(x, w), expected, strict=True):
        assert (a.double() - b).abs().max() <= 2e-5 * b.abs().max()


@pytest.mark.parametrize(("h", "g"), list(itertools.product(H, G)))
@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e15])
def test_gradients_of_filters_at_every_scale(h, g, scale):
    torch.manual_seed(1)
    layer = hs.nn.DecoupledConv2d(3, 4, 3, magnitude=h, angular=g, weighted="product")  # h takes ‖w‖‖x‖
    with torch.no_grad():
        layer.weight.mul_(scale)
        layer.weight[0].zero_()
    x, seed = torch.randn(3, 3, 4, 4), torch.randn(3, 4, 2, 2) * 1e-3
    x[1] *= 0.1  # inside ρ
    x[2] = 0
    wide = copy.deepcopy(layer).double()
    out, reference = layer(x), wide(x.double())
    grads = torch.autograd.grad(out, list(layer.parameters()), seed)
    expected = torch.autograd.grad(reference, list(wide.parameters()), seed.double())
    for a, b in zip([out, *grads], [reference, *expected], strict=True):
        assert a.dtype == torch.float32
        assert (a.double() - b).abs().max() <= 2e-5 * b.abs().max()


@pytest.mark.parametrize("scale", [1e-170, 1e160])
def test_filters_whose_squares_float64_does_not_hold(scale):
    layer = hs.nn.DecoupledConv2d(3, 4, 3, magnitude="linear", weighted="product", dtype=torch.float64)
    x = torch.randn(2, 3, 4, 4, dtype=torch.float64)
    expected = layer(x) * scale
    with torch.no_grad():
        layer.weight.mul_(scale)
    torch.testing.assert_close(layer(x), expected, atol=0, rtol=1e-12)


@pytest.mark.parametrize("h", H)
@pytest.mark.parametrize("weighted", [None, "product"])
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients_of_a_tiny_radius_by_plain_operations(h, weighted, compiled):
    """ρ follows the norms: what is over ρ has a derivative over ρ², which float32 cannot hold."""
    torch.manual_seed(1)
    layer = hs.nn.DecoupledConv2d(3, 4, 3, magnitude=h, weighted=weighted)
    x, seed = torch.randn(2, 3, 4, 4) * 1e-25, torch.randn(2, 4, 2, 2) * 1e-3
    x[1] *= 0.1  # inside ρ
    layer(x)
    layer.eval()
    wide = copy.deepcopy(layer).double()
    expected = torch.autograd.grad(wide(x.double()), list(wide.parameters()), seed.double())
    if compiled:
        torch.compiler.reset()
        run = torch.compile(layer, backend="aot_eager", fullgraph=True)
        grads = torch.autograd.grad(run(x), list(layer.parameters()), seed)
    else:
        names = dict(layer.named_parameters())
        total = lambda values: (torch.func.functional_call(layer, values, (x,)) * seed).sum()  # noqa: E731
        grads = list(torch.func.grad(total)(names).values())
    for a, b in zip(grads, expected, strict=True):
        assert (a.double() - b).abs().max() <= 2e-5 * b.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("g", G)
def test_the_largest_numbers_there_are(dtype, g):
    x = torch.full((1, 3, 5, 5), 3e38).to(dtype)
    x[:, 1] *= -1
    x[..., ::2] *= 0.5
    w = torch.randn(2, 3, 3, 3, generator=torch.Generator().manual_seed(2)).to(dtype)
    expected = convolution(x.double().numpy(), w.double().numpy(), "sphere", g)
    out = F.decoupled_conv(x, w, angular=g)
    np.testing.assert_allclose(out.double().numpy(), expected, atol=2e-6 if dtype == torch.float32 else 4e-3)


@pytest.mark.parametrize("g", G)
def test_denormal_batches_are_zero_patches_to_the_operator(g):
    x = (torch.randn(2, 3, 5, 5) * 1e-40).requires_grad_()
    layer = hs.nn.SphereConv2d(3, 4, 3, angular=g)
    grads = torch.autograd.grad(layer(x).sum(), (x, layer.weight))
    assert all(grad.eq(0).all() for grad in grads)
    norms = F.patch_norm(x, 3)
    expected = torch.nn.functional.unfold(x.detach().double(), 3).norm(dim=1).view(2, 1, 3, 3)
    assert ((norms - expected).abs() <= 2 * 2.0**-149).all()
    assert torch.autograd.grad(norms.sum(), x)[0].isfinite().all()


def test_an_h_and_a_g_of_ones_own_keep_their_dtype():
    seen = []

    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(1, 1)

        def forward(self, n):
            seen.append(n.dtype)
            return self.inner(n[..., None]).squeeze(-1)

        def from_cos(self, c):
            return self(c)

    x, w, own = torch.randn(2, 3, 4) * 1e30, torch.randn(3, 3, 2), Own()
    out = F.decoupled_conv(x, w, magnitude=own, angular=own)
    assert out.dtype == torch.float32
    assert out.isfinite().all()
    assert set(seen) == {torch.float32}


def test_scales_side_by_side_under_autocast():
    x, layer = torch.ones(2, 4, 4, 4), hs.nn.SphereConv2d(4, 3, 2)
    x[0] *= 1e25
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(x)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out[0], out[1])
