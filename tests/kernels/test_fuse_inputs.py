"""Fused layers on unusual inputs and parameters: empty, strided, in other orders, zero, under autocast."""

import copy
import importlib

import pytest
import torch
from fused import compare, conv, plain_operations
from torch import nn

import hypersphere as hs
from hypersphere.kernels import block, layout
from hypersphere.nn.block import Parts, run


def test_filters_of_zeros_learn_where_the_weight_itself_is_the_kernel():
    layer = hs.nn.DecoupledLinear(4, 3, magnitude="linear", angular="cosine", weighted="linear")
    nn.init.zeros_(layer.weight)
    layer(torch.randn(5, 4)).sum().backward()
    assert layer.weight.grad.abs().max() > 0
    assert hs.nn.fuse(nn.Sequential(layer, nn.ReLU())).fusion.blocks == []


def test_a_scripted_layer_between_blocks_stays_as_it_is():
    model = nn.Sequential(conv(3, 4), nn.ReLU(), torch.jit.script(nn.Identity()))
    compare(hs.nn.fuse(model), copy.deepcopy(model), torch.randn(2, 3, 4, 4))


def test_parameters_with_gaps_between_their_numbers():
    model = nn.Sequential(conv(3, 4), nn.BatchNorm2d(4), nn.ReLU())
    model[1].weight = nn.Parameter(torch.randn(4, 2)[:, 0])
    assert not model[1].weight.is_contiguous()
    compare(hs.nn.fuse(model), copy.deepcopy(model), torch.randn(2, 3, 4, 4))


def test_a_backward_pass_under_autocast_has_the_dtypes_of_the_forward_pass():
    layer, x = hs.nn.SphereLinear(6, 4, angular="linear"), torch.randn(3, 6, requires_grad=True)
    expected = torch.autograd.grad(layer(x).sum(), [x, layer.weight])
    loss = layer(x).sum()
    with torch.autocast(x.device.type, torch.bfloat16):
        found = torch.autograd.grad(loss, [x, layer.weight])
    torch.testing.assert_close(found, expected)


@pytest.mark.gpu
def test_a_layer_on_another_device_than_its_input():
    """Also where one like it has run: launches would take its address as it is."""
    x = torch.randn(7, 8)
    model = hs.nn.fuse(nn.Sequential(hs.nn.SphereLinear(8, 3), nn.BatchNorm1d(3)))
    model(x)
    hs.nn.SphereLinear(8, 3)(x)
    with pytest.raises(ValueError, match="x is on cuda:0 and weight of the layer on cpu: move one of them"):
        hs.nn.SphereLinear(8, 3, device="cpu")(x)
    model[1].cpu()
    with pytest.raises(ValueError, match="x is on cuda:0 and gamma of the layer on cpu: move one of them"):
        model(x)


def test_layers_that_differ_in_their_filters_alone():
    """Same input, same settings: the number of outputs tells their launches apart."""
    for model in (hs.nn.SphereLinear(8, 3), hs.nn.SphereLinear(8, 40), hs.nn.SphereLinear(8, 5)):
        compare(model, copy.deepcopy(model), torch.randn(7, 8))


@pytest.mark.parametrize("shape", [(0, 3, 6, 6), (1, 3, 6, 6)])
def test_batches_of_none_and_one(shape):
    model = nn.Sequential(conv(3, 4), nn.BatchNorm2d(4), nn.ReLU())
    plain = copy.deepcopy(model)
    hs.nn.fuse(model)
    if shape[0] == 0:
        model.eval()
        plain.eval()
        assert model(torch.randn(shape)).shape == (0, 4, 6, 6)
    else:
        compare(model, plain, torch.randn(shape))
    one = hs.nn.fuse(nn.Sequential(hs.nn.SphereLinear(3, 4), nn.BatchNorm1d(4)))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        one(torch.randn(1, 3))


def test_a_batchnorm_of_one_value():
    model = hs.nn.fuse(nn.Sequential(conv(3, 4, stride=4), nn.BatchNorm2d(4)))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        model(torch.randn(1, 3, 4, 4))
    assert model[1].running_mean.eq(0).all()


def test_slopes_of_another_dimension_than_the_channels():
    """PReLU has one for each entry of the second dimension, which is not the one that a linear layer gives."""
    model = nn.Sequential(hs.nn.SphereLinear(3, 4), nn.PReLU(4))
    nn.init.uniform_(model[1].weight)
    compare(hs.nn.fuse(model), copy.deepcopy(model), torch.randn(2, 4, 3))
    with pytest.raises(RuntimeError, match="3 and channel size = 4"):
        hs.nn.fuse(nn.Sequential(conv(3, 4), nn.PReLU(3)))(torch.randn(2, 3, 4, 4))


def test_what_kernels_write_to_is_written_to_for_autograd():
    """A graph that kept running statistics cannot be used after they moved, as with torch's own BatchNorm."""
    model = hs.nn.fuse(nn.Sequential(conv(3, 4, h="tanh"), nn.BatchNorm2d(4))).eval()
    x = torch.randn(2, 3, 4, 4)
    out, versions = model(x), [buffer._version for buffer in model.buffers()]
    assert len(versions) == 5
    model.train()(x)
    assert all(buffer._version > before for buffer, before in zip(model.buffers(), versions, strict=True))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
    memory = hs.nn.DecoupledGRU(3, 4, magnitude="tanh")
    memory(torch.randn(2, 1, 3))
    assert memory.rules["weight_hh_l0"].magnitude.running_norm._version > 1


@pytest.mark.parametrize(("h", "given"), [("sphere", False), ("sphere", True), ("tanh", False)])
def test_gradients_of_the_smallest_norms(h, given):
    """1/n² or 1/n³ may overflow, and an entry of 0 would make it NaN."""
    x = (torch.tensor([1.0, 0.0, 2.0, 0.0]) * 10.0 ** -torch.arange(10.0, 26.0)[:, None]).requires_grad_()
    layer = hs.nn.DecoupledLinear(4, 3, magnitude=h, angular="linear")
    out, _ = run(Parts(layer), x, x.square().sum(1, keepdim=True) if given else None)
    (1000 * out).sum().backward()
    assert x.grad.isfinite().all()
    assert layer.weight.grad.isfinite().all()
    with plain_operations():
        torch.testing.assert_close(out[:6], layer(x)[:6])
    assert out[7:].eq(0).all()


def test_a_copy_of_an_output_is_an_input_like_any_other():
    """Σ z² is noted on an output, and that note is worth nothing on a copy of what was written to since."""

    class Rectified(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.act = conv(3, 4), nn.ReLU()

        def forward(self, x):
            return self.act(self.conv(x))

    second = conv(4, 4)
    with torch.no_grad():
        z = hs.nn.fuse(Rectified())(torch.randn(2, 3, 4, 4))
        assert z._hypersphere[-1] is not None
        z[0, 1:] *= 2
        torch.testing.assert_close(second(copy.deepcopy(z)), second(z.clone()))


def test_inputs_that_are_not_contiguous():
    model = nn.Sequential(conv(3, 4), nn.BatchNorm2d(4), nn.ReLU())
    plain = copy.deepcopy(model)
    compare(hs.nn.fuse(model), plain, torch.randn(3, 2, 6, 7).transpose(0, 1)[:, :, :, ::2])
    model.to(memory_format=torch.channels_last)
    model(torch.randn(4, 3, 6, 7, dtype=torch.float32)[::2])


def test_maps_are_channels_last_between_blocks_alone(monkeypatch):
    """What comes in and goes out, also to a module that is not known, has the usual order."""

    class Seen(nn.Module):
        def forward(self, x):
            assert x.is_contiguous()
            return x.view(x.shape)

    module = importlib.import_module("hypersphere.nn.fuse")
    monkeypatch.setattr(module, "wants_channels_last", lambda x: x.is_contiguous())
    orders = []
    monkeypatch.setattr(block, "forward", _noting(block.forward, orders))
    model = nn.Sequential(conv(3, 4), nn.ReLU(), nn.MaxPool2d(2), Seen(), conv(4, 4), nn.Dropout(0.0), conv(4, 2))
    plain = copy.deepcopy(model)
    hs.nn.fuse(model)
    compare(model, plain, torch.randn(2, 3, 4, 4))
    assert orders == [True] * 3
    assert model(torch.randn(2, 3, 4, 4)).is_contiguous()


def _noting(forward, orders):
    def noting(spec, t, *rest):
        orders.append(layout.channels_last(t.x))
        return forward(spec, t, *rest)

    return noting
