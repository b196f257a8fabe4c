"""fuse: what it finds, that nothing but speed changes, and that the kernels really run."""

import copy
import importlib
import itertools
import pickle
import sys
import warnings

import pytest
import torch
from fused import compare, conv, network, plain_operations
from torch import nn

import hypersphere as hs
from hypersphere import kernels
from hypersphere.functional.angular import ANGULAR
from hypersphere.functional.magnitude import MAGNITUDES
from hypersphere.kernels import launch


class Unit(nn.Module):
    """A residual unit as torchvision writes it: attributes, and one ReLU for two places."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = hs.nn.SphereConv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = hs.nn.SphereConv2d(4, 4, 3, padding=1, angular="linear"), nn.BatchNorm2d(4)
        self.act2 = nn.SiLU()

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.act2(self.bn2(self.conv2(out))) + x)


PASSES = ("unit", "stats", "apply", "reduce", "grad", "unit_backward")


def test_every_g_and_h_launches_every_pass(monkeypatch):
    """In the interpreter launches are only counted: the values of all pairs are in test_block.py."""
    if kernels.launch.interpreting():
        noting = lambda self, stream, *tensors: kernels.LAUNCHES.update([self.name])  # noqa: E731
        monkeypatch.setattr(launch.Launch, "__call__", noting)
    for g, h in itertools.product(ANGULAR, MAGNITUDES):
        kernels.LAUNCHES.clear()
        model = hs.nn.fuse(nn.Sequential(conv(2, 3, g, h), nn.BatchNorm2d(3), nn.ReLU()))
        model(torch.randn(2, 2, 4, 4, requires_grad=True)).sum().backward()
        assert [kernels.LAUNCHES[f"{name}_kernel"] for name in PASSES] == [1] * len(PASSES), (g, h)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float16, 5e-3)])
def test_norms_of_rows_take_no_launch_of_their_own(dtype, tolerance):
    layers = hs.nn.SphereLinear(6, 10, True, angular="sigmoid"), nn.ReLU(), hs.nn.SphereLinear(10, 4, angular="linear")
    model = nn.Sequential(*layers).to(dtype)
    x = torch.randn(70, 6, dtype=dtype)
    x[3] = 0
    with torch.no_grad():
        layers[0].bias[:5] = -2  # whose outputs ReLU takes away: one row of zeros is not the only short one
    compare(hs.nn.fuse(copy.deepcopy(model)), model, x, tolerance)
    assert kernels.LAUNCHES["box_kernel"] == 1  # of the first layer, forward
    assert kernels.LAUNCHES["unit_kernel"] == 2


@pytest.mark.parametrize(("g", "h"), [("linear", "sphere"), ("sigmoid", "mix")])
def test_two_blocks_in_a_row(g, h):
    """Two launches of each pass, forward as backward. All pairs are in test_block.py."""
    model = nn.Sequential(conv(2, 3, g, h), nn.BatchNorm2d(3), nn.ReLU(), conv(3, 2, g, h), nn.BatchNorm2d(2))
    plain = copy.deepcopy(model)
    compare(hs.nn.fuse(model), plain, torch.randn(2, 2, 4, 4), 1e-4)
    assert len(model.fusion.blocks) == 2
    for name in PASSES:
        assert kernels.LAUNCHES[f"{name}_kernel"] == 2, name
    assert kernels.LAUNCHES["squares_kernel"] == 1  # the second block is given Σ x²


@pytest.mark.parametrize("training", [True, False])
def test_a_network(training):
    model = network(hs.angular.Sigmoid(learnable=True), "tanh").train(training)
    plain = copy.deepcopy(model)
    names = list(model.state_dict())
    assert hs.nn.fuse(model) is model
    assert list(model.state_dict()) == names
    assert model.fusion.blocks == [("0", "1", "2"), ("3", "4", "5"), ("7.0", "7.1"), ("9", "10")]
    assert "4 blocks fused" in str(model.fusion)
    compare(model, plain, torch.randn(4, 3, 6, 6))
    assert kernels.LAUNCHES["pool_kernel"] == kernels.LAUNCHES["pool_spread_kernel"] == 1


def test_attributes_of_a_residual_unit():
    unit = Unit()
    plain = copy.deepcopy(unit)
    hs.nn.fuse(unit)
    assert unit.fusion.blocks == [("conv1", "bn1", "relu"), ("conv2", "bn2", "act2")]
    copied = pickle.loads(pickle.dumps(copy.deepcopy(unit)))
    assert isinstance(copied.bn1, nn.BatchNorm2d)
    compare(copied, plain, torch.randn(2, 4, 5, 5))
    assert kernels.LAUNCHES["stats_kernel"] == 2
    assert kernels.LAUNCHES["squares_kernel"] == 1  # the second operator reads Σ x² off its input
    x, (unit, plain) = torch.randn(1, 4, 5, 5), (unit.eval(), Unit().eval())
    plain.load_state_dict(unit.state_dict())
    with plain_operations():
        torch.testing.assert_close(unit(x), plain(x))  # what an operator took over runs as plain modules, too


def test_an_activation_that_modules_share():
    """A ReLU computes what no operator has computed; any other that is called twice runs by itself."""

    class Row(nn.Module):
        def __init__(self, act):
            super().__init__()
            self.conv, self.bn, self.drop, self.act = conv(3, 3), nn.BatchNorm2d(3), nn.Identity(), act

        def forward(self, x):
            return self.act(self.drop(self.bn(self.conv(x))))

    for act, number in ((nn.ReLU(inplace=True), 3), (nn.SiLU(), 2)):
        model = nn.Sequential(Row(act), Row(act), nn.BatchNorm2d(3), act)
        plain = copy.deepcopy(model)
        hs.nn.fuse(model)
        assert [len(block) for block in model.fusion.blocks] == [number, number]
        assert str(hs.nn.fuse(model).fusion) == str(copy.deepcopy(model).fusion)
        compare(model, plain, torch.randn(2, 3, 4, 4))
        with plain_operations():
            model(torch.randn(2, 3, 4, 4)).sum().backward()


@pytest.mark.parametrize(("h", "training"), [("sphere", True), ("tanh", False)])
def test_second_derivatives(h, training):
    """In evaluation, where x is read in another order, the radius of tanh is the running one, not the batch's."""
    model = hs.nn.fuse(network(h=h)).train(training)
    model = model if training else model.to(memory_format=torch.channels_last)
    plain = copy.deepcopy(model)
    x = torch.randn(2, 3, 6, 6, requires_grad=True)

    def penalty(net):
        (grad,) = torch.autograd.grad(net(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(grad.square().sum(), [p for p in net.parameters() if p.dim() > 1])

    mine = penalty(model)
    with plain_operations():
        theirs = penalty(plain)
    for a, b in zip(mine, theirs, strict=True):
        assert float((a - b).norm()) < 1e-3 * float(b.norm())


def test_what_an_operator_hands_to_another_has_its_whole_gradient():
    """Σ z² comes with z in modules of the user's own, too, where z can be asked for its gradient."""
    first, second = hs.nn.fuse(Unit()), hs.nn.fuse(Unit())
    first.relu = second.relu = nn.Identity()
    first.forward = lambda x: first.act2(first.bn2(first.conv2(x)))
    x = torch.randn(2, 4, 4, 4, requires_grad=True)

    def gradients():
        between = first(x)
        between.note = "an attribute of the user's own"
        yield torch.autograd.grad(second.conv1(between).pow(3).sum(), between)[0]
        between = first(x).detach_().requires_grad_()
        yield torch.autograd.grad(second.conv1(between).pow(3).sum(), between)[0]
        (slope,) = torch.autograd.grad(second.conv1(first(x)).pow(3).sum(), x, create_graph=True)
        yield torch.autograd.grad(slope.square().sum(), x)[0]

    kernels.LAUNCHES.clear()
    mine = list(gradients())
    assert kernels.LAUNCHES["squares_kernel"] == 3  # of x alone
    with plain_operations():
        torch.testing.assert_close(mine, list(gradients()), rtol=1e-3, atol=1e-2)


def test_second_derivatives_in_half_precision():
    """BatchNorm has parameters of the network's dtype, and numbers of float32 to apply them to."""
    model = hs.nn.fuse(nn.Sequential(conv(3, 2), nn.BatchNorm2d(2), nn.SiLU())).bfloat16()
    x = torch.randn(2, 3, 4, 4, dtype=torch.bfloat16, requires_grad=True)

    def penalty():
        (grad,) = torch.autograd.grad(model(x).float().pow(3).sum(), x, create_graph=True)
        return torch.autograd.grad(grad.float().square().sum(), model[1].weight)[0]

    mine = penalty()
    with plain_operations():
        torch.testing.assert_close(mine, penalty(), rtol=0.1, atol=0.1)


def test_linear_layers_hand_the_norms_of_rows_on():
    """Σ z² of each row comes with z, whatever the shape of the rows; a convolution has no use for it."""
    layers = [hs.nn.SphereLinear(5, 6, angular="linear"), nn.GELU(), hs.nn.SphereLinear(6, 4, angular="sigmoid")]
    plain = nn.Sequential(*layers, conv(3, 2))
    fused = hs.nn.fuse(copy.deepcopy(plain))
    kernels.LAUNCHES.clear()
    compare(fused, plain, torch.randn(2, 3, 4, 5))
    assert kernels.LAUNCHES["squares_kernel"] == 2  # of the input, and of the convolution's


def test_a_row_of_blocks_leaves_a_compiler_nothing():
    fuse = importlib.import_module("hypersphere.nn.fuse")
    model = fuse.fuse(network())
    assert fuse.is_row_of_blocks(model)
    assert not fuse.is_row_of_blocks(nn.Sequential(*model, nn.BatchNorm1d(5)))
    assert not fuse.is_row_of_blocks(fuse.fuse(nn.Sequential(conv(3, 4), Unit())))
    assert not fuse.is_row_of_blocks(fuse.fuse(nn.Sequential(conv(3, 4, weighted="product"))))
    assert not fuse.is_row_of_blocks(nn.Sequential(nn.Linear(2, 2)))


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


def test_many_gradients_at_once():
    model = hs.nn.fuse(nn.Sequential(conv(1, 1, h="log"), nn.BatchNorm2d(1), nn.SiLU(), nn.MaxPool2d(2))).eval()
    memory, jacobian = hs.nn.SphereRNN(2, 1), torch.autograd.functional.jacobian
    for run, x in ((model, torch.randn(1, 1, 2, 2)), (lambda x: memory(x)[0], torch.randn(1, 2))):
        torch.testing.assert_close(jacobian(run, x, vectorize=True), jacobian(run, x), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("g", "h", "weighted"), [("sigmoid", "tanh", "linear"), ("cosine", "log", "separate")])
def test_norms_of_filters_that_are_a_factor(g, h, weighted):
    model = nn.Sequential(conv(2, 3, g, h, weighted=weighted, affine=True), nn.ReLU())
    plain = copy.deepcopy(model)
    x = torch.randn(2, 2, 4, 4)
    compare(hs.nn.fuse(model), plain, x)
    assert model.fusion.blocks == [("0", "1")]
    assert kernels.LAUNCHES["apply_kernel"] == kernels.LAUNCHES["grad_kernel"] == 1
    function = hs.functional.decoupled_conv
    out = function(x, model[0].weight, padding=1, magnitude=h, angular=g, weighted=weighted)
    with plain_operations():
        torch.testing.assert_close(
            out, function(x, model[0].weight, padding=1, magnitude=h, angular=g, weighted=weighted)
        )


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
    with pytest.raises(TypeError, match=r"not a torch\.nn\.Module"):
        hs.nn.fuse("resnet")


@pytest.mark.gpu
def test_a_captured_step_is_an_eager_one():
    """In a graph some kernels run beside the convolutions."""
    model = hs.nn.fuse(network(hs.angular.Sigmoid(learnable=True), "tanh"))
    x = torch.randn(64, 3, 6, 6, requires_grad=True)
    seed = torch.randn(64, 5)

    def step():
        model.zero_grad()
        x.grad = None
        model(x).backward(seed)

    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        step()
        step()
    torch.cuda.synchronize()
    expected = [t.grad.clone() for t in (x, *model.parameters())]
    with torch.cuda.graph(graph, stream=side):
        step()
    scale = max(float(value.norm()) for value in expected)
    for _ in range(20):
        graph.replay()
        for t, value in zip((x, *model.parameters()), expected, strict=True):
            assert float((t.grad - value).norm()) < 1e-5 * scale  # sums are added in another order each time


def test_deterministic_algorithms_take_the_plain_path(monkeypatch):
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    fake = torch.empty(0)

    class OnGpu:
        dtype, is_cuda, device = fake.dtype, True, torch.device("cuda", 0)

    monkeypatch.setitem(launch._RUNS, 0, True)
    assert not kernels.usable(OnGpu())
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: False)
    assert kernels.usable(OnGpu())
    assert not kernels.usable(torch.zeros(1, dtype=torch.float64))


def test_without_triton_one_warning(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setattr(launch, "_RUNS", {})
    with pytest.warns(UserWarning, match="Triton is not installed"):
        assert not launch.device_runs(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not launch.device_runs(0)


def test_older_gpus_take_the_plain_path(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (7, 5))
    monkeypatch.setattr(launch, "_RUNS", {})
    assert not launch.device_runs(0)


def test_networks_of_the_library_are_fused():
    model = hs.models.create("cnn3", conv="sphere", angular="sigmoid", widths=(4, 4, 4), image_size=8)
    assert len(model.fusion.blocks) == 4
    model(torch.randn(2, 3, 8, 8)).sum().backward()
    assert kernels.LAUNCHES["grad_kernel"] == 4
