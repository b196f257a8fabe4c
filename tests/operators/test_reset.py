"""Starting again: reset_parameters, also after ``to_empty``, and running means that half precision leaves alone."""

import copy
import math

import pytest
import torch
from torch import nn

import hypersphere as hs


def rules():
    return {"magnitude": hs.magnitude.Tanh(rho=0.7), "angular": hs.angular.Sigmoid(k=0.6, learnable=True)}


LAYERS = {
    "conv": lambda **o: hs.nn.DecoupledConv2d(3, 4, 3, bias=True, affine=True, **rules(), **o),
    "transposed": lambda **o: hs.nn.DecoupledConvTranspose1d(3, 4, 3, affine=True, **rules(), **o),
    "linear": lambda **o: hs.nn.DecoupledLinear(3, 4, bias=True, affine=True, **rules(), **o),
    "sphere": lambda **o: hs.nn.SphereConv3d(3, 4, 3, affine=True, angular=rules()["angular"], **o),
    "lstm": lambda **o: hs.nn.DecoupledLSTM(3, 4, 2, proj_size=2, affine=True, **rules(), **o),
    "gru": lambda **o: hs.nn.SphereGRU(3, 4, bidirectional=True, affine=True, angular=rules()["angular"], **o),
}


def spoil(layer):
    with torch.no_grad():
        for tensor in layer.state_dict().values():
            tensor.fill_(7 if tensor.dtype == torch.long else math.nan)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("meta", [False, True])
def test_a_reset_layer_is_as_a_new_one(name, meta):
    torch.manual_seed(3)
    new = LAYERS[name]()
    layer = LAYERS[name](device="meta").to_empty(device="cpu") if meta else LAYERS[name]()
    spoil(layer)
    torch.manual_seed(3)
    layer.reset_parameters()
    assert layer.state_dict().keys() == new.state_dict().keys()
    for key, value in new.state_dict().items():
        assert torch.equal(layer.state_dict()[key], value), key


@pytest.mark.parametrize("form", ["log", "square"])
def test_objects_reset_alone(form):
    h = hs.magnitude.Ball(rho=0.4, form=form)
    g = hs.angular.Sigmoid(k=0.4, learnable=True, form="abs" if form == "square" else "log").for_layer(3)
    states = [copy.deepcopy(rule.state_dict()) for rule in (h, g)]
    h(torch.rand(5))
    spoil(h)
    spoil(g)
    for rule, state in zip((h, g), states, strict=True):
        rule.reset_parameters()
        torch.testing.assert_close(rule.state_dict(), state, rtol=0, atol=0)


def test_rules_of_ones_own_are_reset_if_they_can_be():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.raw = nn.Parameter(torch.zeros(()))

        def forward(self, n):
            return n * self.raw.exp()

        def reset_parameters(self):
            nn.init.zeros_(self.raw)

    layer = hs.nn.DecoupledLinear(3, 4, magnitude=Own())
    spoil(layer)
    layer.reset_parameters()
    assert layer.magnitude.raw.item() == 0
    hs.nn.DecoupledLinear(3, 4, magnitude=torch.log1p).reset_parameters()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_leaves_the_running_mean_usable(dtype):
    layer = hs.nn.DecoupledLinear(64, 4).to(dtype)
    x = torch.full((4, 64), 3e4, dtype=dtype)
    layer(x)
    assert layer.magnitude.running_norm.dtype == torch.float32
    assert layer.magnitude.running_norm.item() == pytest.approx(x[0].float().norm().item())
    assert layer.eval()(x).isfinite().all()


def test_half_precision_does_not_round_a_mean_that_was_there():
    h = hs.magnitude.Tanh()
    h(torch.tensor([123456.7]))
    for cast in (lambda h: h.half(), lambda h: h.bfloat16(), lambda h: h.to(torch.float16)):
        twin = cast(copy.deepcopy(h))
        assert twin.running_norm.item() == h.running_norm.item()
        assert twin.raw_rho.dtype != torch.float32
        assert "running_norm" in twin.state_dict()
    assert h.double().running_norm.dtype == torch.float64


def test_a_float64_mean_has_a_float64_momentum():
    h = hs.magnitude.Ball().double()
    for value in (1.0, 3.0):
        h(torch.tensor([value], dtype=torch.float64))
    assert h.running_norm.item() == pytest.approx(0.9 * 1 + 0.1 * 3, rel=1e-15)


def test_a_mean_too_large_for_its_buffer_does_not_count():
    layer = hs.nn.DecoupledLinear(64, 4)
    assert layer(torch.full((4, 64), 3e38)).isfinite().all()
    assert layer.magnitude.running_norm.item() == 1.0
