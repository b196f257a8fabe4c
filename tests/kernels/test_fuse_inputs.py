"""Fused layers on unusual inputs and parameters: empty, strided, in other orders, zero, under autocast."""

import copy
import importlib

import pytest
import torch
from fused import compare, conv
from torch import nn

import hypersphere as hs
from hypersphere.kernels import block, layout


def test_filters_of_zeros_learn_where_the_weight_itself_is_the_kernel():
    layer = hs.nn.DecoupledLinear(4, 3, magnitude="linear", angular="cosine", weighted="linear")
    nn.init.zeros_(layer.weight)
    layer(torch.randn(5, 4)).sum().backward()
    assert layer.weight.grad.abs().max() > 0
    assert hs.nn.fuse(nn.Sequential(layer, nn.ReLU())).fusion.blocks == []


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
    hs.nn.SphereLinear(8, 3)(x)
    with pytest.raises(ValueError, match="x is on cuda:0 and weight of the layer on cpu: move one of them"):
        hs.nn.SphereLinear(8, 3, device="cpu")(x)


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
