"""fuse: what it finds, that nothing but speed changes, and that the kernels really run."""

import copy
import importlib
import itertools
import pickle
import sys
import warnings

import pytest
import torch
from fused import Unit, compare, conv, network, plain_operations
from torch import nn

import hypersphere as hs
from hypersphere import kernels
from hypersphere.functional.angular import ANGULAR
from hypersphere.functional.magnitude import MAGNITUDES
from hypersphere.kernels import launch

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
