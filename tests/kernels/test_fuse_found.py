"""fuse: which rows of modules it finds, and what it does when modules are changed, replaced or hooked."""

import copy
import pickle

import pytest
import torch
from fused import Unit, conv, network, plain_operations
from torch import nn

import hypersphere as hs
from hypersphere import kernels


def test_what_fuse_found_is_found_again_when_modules_change():
    model = hs.nn.fuse(nn.Sequential(conv(3, 4), nn.BatchNorm2d(4), nn.ReLU()))
    x = torch.randn(2, 3, 5, 5)
    model(x)
    model[2] = nn.Identity()
    assert (model(x) < 0).any()
    seen = []
    model[1].register_forward_hook(lambda *_: seen.append(1))
    model(x)
    assert seen


@pytest.mark.parametrize("training", [True, False])
def test_a_row_that_only_training_or_only_evaluation_has(training):
    class Row(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.bn, self.act = hs.nn.SphereLinear(3, 4), nn.BatchNorm1d(4), nn.SiLU()

        def forward(self, x):
            x = self.bn(self.fc(x))
            return self.act(x if self.training is training else 2 * x)

    plain, x = Row().train(), torch.randn(5, 3)
    model = hs.nn.fuse(copy.deepcopy(plain))
    assert model.fusion.alone == ["fc"]
    assert model.training
    with plain_operations():
        for mode in (True, False):
            torch.testing.assert_close(model.train(mode)(x), plain.train(mode)(x))


def test_modules_of_a_row_that_are_replaced_or_hooked():
    """An operator computes BatchNorm and activation of a module only as long as the three are those that were found."""

    def rows(change, seen):
        torch.manual_seed(1)
        plain = Unit().eval()
        nn.init.uniform_(plain.bn2.weight)
        fused = hs.nn.fuse(copy.deepcopy(plain))
        return [change(unit, seen) or unit for unit in (plain, fused)]

    def hook(name):
        return lambda unit, seen: getattr(unit, name).register_forward_hook(lambda *call: seen.append(call[2])) and None

    def put(name, module):
        return lambda unit, seen: setattr(unit, name, module)

    def synchronize(unit, seen):
        nn.SyncBatchNorm.convert_sync_batchnorm(unit)

    changes = [hook("conv2"), hook("bn2"), hook("relu"), synchronize]
    changes += [put("conv2", nn.Conv2d(4, 4, 1)), put("bn2", nn.Identity()), put("act2", nn.Tanh())]
    x = torch.randn(1, 4, 3, 3)
    with plain_operations():
        for change in changes:
            seen = []
            plain, fused = rows(change, seen)
            expected = plain(x)
            theirs = [one.clone() for one in seen]
            torch.testing.assert_close(fused(x), expected)
            torch.testing.assert_close(seen[len(theirs) :], theirs)
            torch.testing.assert_close(hs.nn.fuse(fused)(x), expected)  # the rows that are left
        layer = hs.nn.fuse(Unit().eval()).conv2
        expected = hs.functional.decoupled_conv(x, layer.weight, padding=1, angular="linear")
        saved = pickle.dumps(layer)
        assert b"Unit" not in saved  # the module of its row is not taken along
        for alone in (copy.deepcopy(layer), pickle.loads(saved)):
            torch.testing.assert_close(alone(x), expected)


class Free(nn.Module):
    """A forward pass that is handed over: a row, unless that does something between its modules."""

    def __init__(self, forward):
        super().__init__()
        self.conv, self.norm, self.act, self.between = conv(2, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Tanh()
        self.kept, self.seen, self.run = [], None, forward
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x, other=None, flag=False):
        self.calls += 1
        return self.run(self, x, other, flag)


def row(m, x, other, flag):
    return m.act(m.norm(m.conv(x)))


def unless_given(m, x, other, flag):
    y = m.conv(x)
    return m.act(m.norm(m.between(y) if other is None else y))


def unless_flagged(m, x, other, flag):
    y = m.conv(x)
    return m.act(m.norm(y if flag else m.between(y)))


def looked_at(m, x, other, flag):
    m.seen = m.conv(x)
    return m.act(m.norm(m.seen))


def appended(m, x, other, flag):
    m.kept.append(m.conv(x))
    return m.act(m.norm(m.kept[-1]))


def without_gradients(m, x, other, flag):
    with torch.no_grad():
        y = m.conv(x)
    return m.act(m.norm(y))


@pytest.mark.parametrize(
    ("forward", "rows"),
    [(row, 1), (unless_given, 0), (unless_flagged, 0), (looked_at, 0), (appended, 0), (without_gradients, 0)],
)
def test_rows_that_a_forward_pass_always_has_and_nobody_looks_into(forward, rows):
    model = Free(forward)
    fused, x = hs.nn.fuse(copy.deepcopy(model)), torch.randn(2, 2, 4, 4)
    assert len(fused.fusion.blocks) == rows
    assert (fused.kept, fused.seen, fused.calls) == ([], None, 0)  # nothing of what looked for rows
    with plain_operations():
        for one in (model, fused):
            one(x).sum().backward()
        assert (model.norm.bias.grad - fused.norm.bias.grad).norm() < 1e-5
        torch.testing.assert_close([*fused.kept, fused.seen], [*model.kept, model.seen])


def test_modules_that_are_replaced_all_at_once():
    model, other = hs.nn.fuse(network()), hs.nn.fuse(network())
    x = torch.randn(2, 3, 6, 6)
    model.eval()(x)
    model._modules = other.eval()._modules
    torch.testing.assert_close(model(x), other(x))


def test_inputs_and_outputs_that_are_no_tensors():
    class Named(nn.Module):
        def forward(self, x):
            return x["x"] if isinstance(x, dict) else {"x": x}

    model = hs.nn.fuse(nn.Sequential(Named(), conv(2, 3), nn.ReLU(), Named()))
    assert model({"x": torch.randn(2, 2, 4, 4)})["x"].shape == (2, 3, 4, 4)


def test_operators_with_a_forward_pass_of_their_own():
    class Doubled(hs.nn.SphereConv2d):
        def forward(self, x):
            return 2 * super().forward(x)

    model = nn.Sequential(Doubled(2, 3, 3), nn.ReLU(), conv(3, 2), nn.ReLU())
    x = torch.randn(2, 2, 5, 5)
    expected = model(x)
    torch.testing.assert_close(hs.nn.fuse(model)(x), expected)
    assert model.fusion.blocks == [("2", "3")]
    torch.testing.assert_close(hs.nn.fold(model)(x), expected)


@pytest.mark.parametrize("kind", ["forward", "forward_pre"])
def test_hooks_on_all_modules_see_each_of_a_row(kind):
    """Those of profilers: torch keeps them beside the modules, not in them."""
    plain, x = Unit().eval(), torch.randn(2, 4, 6, 6)
    nn.init.uniform_(plain.bn2.weight)
    fused, seen = hs.nn.fuse(copy.deepcopy(plain)), []

    def look(module, inputs, output=None):
        seen[-1].append((inputs[0] if output is None else output).clone())

    register = getattr(torch.nn.modules.module, f"register_module_{kind}_hook")
    with plain_operations(), torch.no_grad():
        handle = register(look)
        try:
            for model in (plain, fused):
                seen.append([])
                model(x)
        finally:
            handle.remove()
    for one, other in zip(*seen, strict=True):
        torch.testing.assert_close(one, other)


def test_hooks_are_called():
    model = hs.nn.fuse(network())
    seen = []
    model[1].register_forward_hook(lambda module, inputs, output: seen.append(output))
    model(torch.randn(2, 3, 6, 6))
    assert len(seen) == 1
    assert kernels.LAUNCHES["stats_kernel"] == 2  # the hooked BatchNorm runs by itself


def test_layers_that_are_not_fused_are_listed_with_the_reason():
    class Cubed:
        def from_cos(self, c):
            return c**3

    weighted = hs.nn.DecoupledConv2d(3, 4, 3, weighted="product")
    own = hs.nn.DecoupledConv2d(4, 4, 3, angular=Cubed())
    model = hs.nn.fuse(nn.Sequential(weighted, nn.ReLU(), own, nn.ReLU(), hs.nn.SphereConv2d(4, 2, 1)))
    assert model.fusion.left == {"0": "weighted='product'", "2": "angular is none of the built-in ones"}
    assert model.fusion.alone == ["4"]
    model(torch.randn(1, 3, 8, 8)).sum().backward()
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, not str"):
        hs.nn.fuse("resnet")
