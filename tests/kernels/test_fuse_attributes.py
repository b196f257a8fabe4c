"""fuse: forward passes that depend on attributes of their module, which change after fusing."""

import copy
import pickle

import pytest
import torch
from fused import conv, plain_operations
from torch import nn

import hypersphere as hs


class Optional(nn.Module):
    """Parts of a row that attributes leave out, a counter, and a name that nobody reads."""

    level = 0

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.act = conv(2, 3), nn.BatchNorm2d(3), nn.SiLU()
        self.use_bn, self.raw, self.scale, self.mode, self.pre, self.calls = True, False, 1.0, "all", None, 0
        self.remark = "none"

    def forward(self, x):
        x = self.conv(x)
        self.calls += 1
        if self.raw:
            return x
        if self.pre is not None:
            x = self.pre(x)
        if self.mode == "half":
            x = x / 2
        if self.use_bn:
            x = self.bn(x)
        return (self.act(x) if self.level < 1 else x) * self.scale


CHANGES = [("use_bn", False), ("raw", True), ("mode", "half"), ("pre", nn.Tanh()), ("level", 2), ("scale", 3.0)]


@pytest.fixture
def images():
    """Made inside a test, where the default device is that of the kernels."""
    return torch.randn(2, 2, 4, 4)


@pytest.mark.parametrize(("name", "value"), CHANGES)
def test_another_value_separates_the_modules(name, value, images):
    plain = Optional().eval()
    nn.init.uniform_(plain.bn.weight)
    fused = hs.nn.fuse(copy.deepcopy(plain))
    assert fused.fusion.blocks == [("conv", "bn", "act")]
    before = plain(images)
    with plain_operations():
        torch.testing.assert_close(fused(images), before)
        for model in (plain, fused):
            setattr(model, name, value)
        expected = plain(images)
        assert not torch.allclose(expected, before)
        for model in (fused, copy.deepcopy(fused), pickle.loads(pickle.dumps(fused)), hs.nn.fuse(copy.deepcopy(fused))):
            torch.testing.assert_close(model(images), expected)
        if name != "level":
            setattr(fused, name, getattr(Optional(), name))
            assert fused.conv.follows.now() is not None
            torch.testing.assert_close(fused(images), before)


def test_what_the_forward_pass_writes_or_does_not_read_changes_nothing(images):
    model = hs.nn.fuse(Optional())
    model.remark, model.epoch = "another", 3
    for mode in (True, False):
        model.train(mode)(images)
    assert model.calls == 2
    assert model.conv.follows.now() == (model.bn, model.act)
    assert "__getattribute__" not in vars(Optional)


def test_compiled_again_for_another_value(images):
    model = hs.nn.fuse(Optional().eval())
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with plain_operations(), torch.no_grad():
        for model.use_bn in (True, False, True):
            torch.testing.assert_close(compiled(images), copy.deepcopy(model)(images))


@pytest.mark.parametrize("hooked", [False, True])
def test_an_identity_in_a_row_that_is_replaced_or_hooked(hooked, images):
    class Between(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.between, self.bn, self.act = conv(2, 3), nn.Identity(), nn.BatchNorm2d(3), nn.SiLU()

        def forward(self, x):
            return self.act(self.bn(self.between(self.conv(x))))

    plain = Between().eval()
    fused = hs.nn.fuse(copy.deepcopy(plain))
    assert fused.fusion.blocks == [("conv", "bn", "act")]
    for model in (plain, fused):
        if hooked:
            model.between.register_forward_hook(lambda module, inputs, output: output.tanh())
        else:
            model.between = nn.Tanh()
    with plain_operations():
        torch.testing.assert_close(copy.deepcopy(fused)(images), plain(images))
        torch.testing.assert_close(fused(images), plain(images))
