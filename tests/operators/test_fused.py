"""The fused eager operator: what it keeps, what may be overwritten, and half precision near saturation."""

import gc
import weakref

import pytest
import torch
from operator_reference import ANGULAR
from torch import nn

import hypersphere as hs
from hypersphere.functional.operators import fused as _fused

F = hs.functional
G = sorted(ANGULAR)


def saved_bytes(run):
    """Bytes in the unique storages that autograd keeps, by a hook that sees every saved tensor."""
    storages = {}

    def pack(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = run()
    return sum(storages.values()), out


@pytest.mark.parametrize("g", G)
def test_little_more_is_kept_than_by_the_plain_layer(g):
    x = torch.randn(32, 64, 32, 32, requires_grad=True)

    def block(conv):
        return nn.Sequential(conv, nn.BatchNorm2d(64), nn.ReLU())

    plain, _ = saved_bytes(lambda: block(nn.Conv2d(64, 64, 3, padding=1, bias=False))(x))
    sphere, _ = saved_bytes(lambda: block(hs.nn.SphereConv2d(64, 64, 3, padding=1, angular=g))(x))
    assert sphere <= 1.05 * plain


def test_nothing_is_kept_outside_the_hook():
    """What the hook sees is all: when hooks take the tensors away, the output's memory is free."""
    x, layer = torch.randn(2, 3, 8, 8, requires_grad=True), hs.nn.SphereConv2d(3, 4, 3, angular="sigmoid")
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True).copy(), lambda a: torch.from_numpy(a)):
        out = layer(x)
    reference = weakref.ref(out.untyped_storage())
    total = out.sum()
    del out
    gc.collect()
    assert reference() is None
    (grad,) = torch.autograd.grad(total, x)
    torch.testing.assert_close(grad, torch.autograd.grad(layer(x).sum(), x)[0])


def overwritten(layer, x, change):
    out = layer(x)
    return torch.autograd.grad(change(out).square().sum(), [x, *layer.parameters()])


@pytest.mark.parametrize("learnable", [False, True])
@pytest.mark.parametrize("g", G)
@pytest.mark.parametrize("hooked", [False, True])
def test_an_output_overwritten_in_place_still_has_right_gradients(g, hooked, learnable):
    angular = hs.angular.Sigmoid(learnable=True) if learnable and g == "sigmoid" else g
    layer = hs.nn.SphereConv2d(3, 4, 3, padding=1, angular=angular, dtype=torch.float64)
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64, requires_grad=True)
    changes = [
        (lambda out: torch.relu(out), lambda out: torch.relu_(out)),
        (lambda out: out * 2 + 1, lambda out: out.mul_(2).add_(1)),
    ]
    for plain, in_place in changes:
        expected = overwritten(layer, x, plain)
        if hooked:  # hooks switch autograd's own check off
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                found = overwritten(layer, x, in_place)
        else:
            found = overwritten(layer, x, in_place)
        torch.testing.assert_close(found, expected)


def test_a_view_of_the_output_overwritten_in_place():
    layer = hs.nn.SphereConv2d(3, 4, 3, angular="linear", dtype=torch.float64)
    x = torch.randn(2, 3, 6, 6, dtype=torch.float64, requires_grad=True)

    def change(out):
        out[:, :2].zero_()
        return out

    mask = torch.tensor([0.0, 0.0, 1.0, 1.0], dtype=torch.float64).view(-1, 1, 1)
    torch.testing.assert_close(overwritten(layer, x, change), overwritten(layer, x, lambda out: out * mask))


def test_an_input_overwritten_in_place_is_an_error_as_for_any_convolution():
    layer = hs.nn.SphereConv2d(3, 4, 3)
    x = torch.randn(2, 3, 6, 6, requires_grad=True) * 1
    out = layer(x)
    x.add_(1)
    with pytest.raises(RuntimeError, match=r"modified (by an )?inplace"):
        out.sum().backward()


def test_backward_twice_through_a_retained_graph():
    layer = hs.nn.SphereConv2d(3, 4, 3, angular="sigmoid")
    x = torch.randn(2, 3, 6, 6, requires_grad=True)
    total = layer(x).square().sum()
    first = torch.autograd.grad(total, x, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(total, x), first)


def test_no_reference_cycle_keeps_memory_alive():
    layer = hs.nn.SphereConv2d(3, 4, 3, angular="sigmoid")
    gc.collect()
    gc.disable()
    try:
        out = layer(torch.randn(2, 3, 6, 6, requires_grad=True))
        reference = weakref.ref(out)
        del out
        assert reference() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("g", G)
@pytest.mark.parametrize("h", ["sphere", "tanh", "log"])
def test_fused_equals_composed_in_float32(g, h, monkeypatch):
    layer = hs.nn.DecoupledConv2d(16, 8, 3, padding=1, magnitude=h, angular=g)
    x = torch.randn(4, 16, 8, 8, requires_grad=True)
    seed = torch.randn(4, 8, 8, 8)
    fused = (layer(x), *torch.autograd.grad(layer(x), [x, layer.weight], seed))
    monkeypatch.setattr(_fused, "fused", _fused.composed)
    composed = (layer(x), *torch.autograd.grad(layer(x), [x, layer.weight], seed))
    for a, b in zip(fused, composed, strict=True):
        assert (a - b).norm() <= 2e-6 * b.norm()


@pytest.mark.parametrize("k", [0.02, 0.05, 0.1, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_gradients_near_saturation(k, dtype):
    """A steep sigmoid rounds to ±1: the gradient recovered from it must match float64 as well as the
    one that the definition computes in the same precision does."""
    generator = torch.Generator().manual_seed(0)
    x64 = torch.randn(64, 12, dtype=torch.float64, generator=generator).to(dtype).double()
    w64 = torch.randn(12, 12, dtype=torch.float64, generator=generator).to(dtype).double()
    w64[:6] = x64[:6] + 1e-2 * w64[:6].to(dtype).double()  # nearly aligned pairs: |c| close to 1
    w64 = w64.to(dtype).double()
    seed = torch.randn(64, 12, dtype=torch.float64, generator=generator).to(dtype).double()

    def gradients(kind):
        x, w = x64.to(kind).requires_grad_(), w64.to(kind).requires_grad_()
        raw = torch.tensor(k, dtype=torch.float64 if kind == torch.float64 else torch.float32, requires_grad=True)

        class Rule:
            def from_cos(self, c):
                return F.angular(c, "sigmoid", raw)

            def closed_form(self):
                return "sigmoid", raw

        out = F.decoupled_linear(x, w, angular=Rule())
        return torch.autograd.grad(out, (x, w, raw), seed.to(kind))

    exact = gradients(torch.float64)
    fused = gradients(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_fused, "fused", _fused.composed)
        composed = gradients(dtype)
    for a, b, c in zip(fused, composed, exact, strict=True):
        assert a.isfinite().all()
        error = (a.double() - c).norm() / c.norm()
        floor = (b.double() - c).norm() / c.norm()
        slack = 5e-4 if dtype == torch.float32 else 4 * torch.finfo(dtype).eps
        assert error <= 1.5 * floor + slack, (k, dtype, error.item(), floor.item())


def test_a_float16_inner_product_cannot_overflow():
    x = torch.full((1, 64, 3, 3), 6e4, dtype=torch.float16, requires_grad=True)
    w = torch.ones(2, 64, 3, 3, dtype=torch.float16)
    for g in G:
        out = F.decoupled_conv(x, w, angular=g)
        assert out.flatten().tolist() == pytest.approx([1.0, 1.0], abs=0.06 if g == "linear" else 2e-3)
        assert torch.autograd.grad(out.sum(), x)[0].isfinite().all()


def test_compiled_float16_gradients_stop_at_the_largest_number():
    """At cos = 1 the parts along x and w leave float16, and cancel next: infinities would be NaN."""
    torch.compiler.reset()
    torch.manual_seed(0)
    layer = hs.nn.SphereConv2d(3, 4, 3, angular="linear", dtype=torch.float16)
    x = (0.3 * hs.functional.unit(layer.weight[:1].detach(), (1, 2, 3))).requires_grad_()
    results = []
    for run in (layer, torch.compile(layer, fullgraph=True, backend="aot_eager")):
        results.append(torch.autograd.grad(run(x).float().square().sum(), [x, layer.weight]))
    for found, expected in zip(*reversed(results), strict=True):
        assert expected.isfinite().all()
        torch.testing.assert_close(found, expected, rtol=0.02, atol=0.02)


def test_slices_of_a_batch_change_nothing(monkeypatch):
    layer = hs.nn.SphereConv2d(3, 5, 3, angular=hs.angular.Sigmoid(learnable=True))
    x = torch.randn(7, 3, 6, 6, requires_grad=True)
    whole = torch.autograd.grad(layer(x).square().sum(), [x, *layer.parameters()])
    monkeypatch.setattr(_fused, "_CACHED", 200)
    sliced = torch.autograd.grad(layer(x).square().sum(), [x, *layer.parameters()])
    torch.testing.assert_close(sliced, whole)
