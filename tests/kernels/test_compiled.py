"""Fused networks under compilers, exporters and function transforms; what these are told is what the kernels give."""

import copy

import pytest
import torch
from fused import network
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import hypersphere as hs
import hypersphere.functional.operators.compiled
import programs
from hypersphere import kernels
from hypersphere.kernels import launch
from hypersphere.kernels.spec import Fields, Window, encode

OPS = torch.ops.hypersphere
WINDOWS = {
    "conv": (Window((3, 3), (1, 1), (1, 1), (1, 1)), (6, 4, 3, 3)),
    "transposed": (Window((2, 2), (2, 2), (0, 0), (1, 1), 1, True, (0, 0)), (4, 6, 2, 2)),
    "grouped": (Window((1, 1), (1, 1), (0, 0), (1, 1), 2), (6, 2, 1, 1)),
    "linear": (Window((), (), (), ()), (6, 4)),
}
ORDERS = {
    "usual": lambda shape: torch.randn(shape),
    "last": lambda shape: torch.randn(shape).contiguous(memory_format=torch.channels_last),
    "swapped": lambda shape: torch.randn(shape[1], shape[0], *shape[2:]).transpose(0, 1),
    "gaps": lambda shape: torch.randn(*shape[:-1], 2 * shape[-1])[..., ::2],
}


def orders(tensors):
    """Shapes, dtypes, and strides along dimensions in which there is a step to take."""
    return [(t.shape, t.dtype, [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1]) for t in tensors]


def passes(x, q, weight, gamma, beta, fields):
    """The operators forward and backward: all that they return."""
    tensors = (x, q, weight, None, None, None, None, gamma, beta, None, None, None)
    out = OPS.block(*tensors, None, encode(fields))
    need = [one is not None for one in tensors[:10]]
    return *out, *OPS.block_backward(*tensors, *out[2:], out[0], out[1], need, encode(fields))


@pytest.mark.parametrize("kind", WINDOWS)
def test_order_of_the_results_in_memory(kind, monkeypatch):
    if launch.interpreting():
        monkeypatch.setattr(launch.Launch, "__call__", lambda self, stream, *tensors: None)  # numbers are not asked for
    window, shape = WINDOWS[kind]
    size, fields = (2, 4, 3, 3)[: len(shape)], Fields(window, "linear", norm="train", activation="relu")
    names = [name for name in ORDERS if name != "last" or len(shape) == 4]
    for first, second in [(a, b) for a in names for b in names]:
        x, weight, ones = ORDERS[first](size), ORDERS[second](shape), torch.ones(6)
        q = None if window.groups > 1 else x.square().sum(1, keepdim=True)
        found = orders(passes(x, q, weight, ones, ones, fields))
        with FakeTensorMode() as mode:
            given = [None if t is None else mode.from_tensor(t) for t in (x, q, weight, ones, ones)]
            assert orders(passes(*given, fields)) == found, (first, second)


@pytest.mark.parametrize("order", ORDERS)
def test_order_of_pooled_maps_in_memory(order):
    def both(x):
        z, q, chosen = OPS.max_pool(x, [2, 2], [2, 2], [0, 0])
        return z, q, chosen, OPS.max_pool_backward(z, q, z, chosen, x.shape, [2, 2], [2, 2], [0, 0])

    x = ORDERS[order]((2, 4, 4, 6))
    with FakeTensorMode() as mode:
        told = orders(both(mode.from_tensor(x)))
    assert orders(both(x)) == told


def test_compiled_without_a_graph_break():
    model = hs.nn.fuse(network()[3:8])  # two blocks with a pooling between them
    eager = copy.deepcopy(model)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 4, 6, 6)
    a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
    out, expected = compiled(a), eager(b)
    seed = torch.randn_like(out)
    out.backward(seed)
    expected.backward(seed)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(a.grad, b.grad)
    for mine, theirs in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)
    for mine, theirs in zip(model.buffers(), eager.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert kernels.LAUNCHES["grad_kernel"] == 4


def test_compiled_with_sizes_and_numbers_that_are_symbols():
    torch._dynamo.reset()
    norm, act = nn.BatchNorm1d(4, eps=1e-3, momentum=0.3), nn.LeakyReLU(0.2)
    model = hs.nn.fuse(nn.Sequential(hs.nn.DecoupledLinear(3, 4, angular="sigmoid"), norm, act))
    eager, graphs = copy.deepcopy(model), []
    compiled = torch.compile(
        model, fullgraph=True, dynamic=True, backend=lambda graph, _: graphs.append(graph) or graph
    )
    for rows in (5, 6):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(compiled(x), eager(x))
    assert len(graphs) == 1
    assert kernels.LAUNCHES["apply_kernel"] == 4
    torch.testing.assert_close(norm.running_var, eager[1].running_var)


def test_exported_as_plain_operations():
    model = hs.nn.fuse(network()).eval()
    program = torch.export.export(model, (torch.randn(2, 3, 6, 6),))
    assert not any("hypersphere" in str(node.target) for node in program.graph.nodes)


def test_function_transforms_take_the_plain_path():
    model = hs.nn.fuse(network()).eval()
    parameters = dict(model.named_parameters())

    def loss(values, x):
        return torch.func.functional_call(model, values, (x[None],)).square().sum()

    grads = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, torch.randn(3, 3, 6, 6))
    assert grads["0.weight"].shape == (3, *model[0].weight.shape)
    assert not kernels.LAUNCHES


@pytest.mark.skipif(torch.cuda.is_available(), reason="asks the interpreter, which is for machines without a GPU")
def test_first_call_imports_no_compiler():
    code = (
        "import os; os.environ['TRITON_INTERPRET'] = '1'\n"
        "import sys, torch\nfrom torch import nn\nimport hypersphere as hs\nfrom hypersphere import kernels\n"
        "m = hs.nn.fuse(nn.Sequential(hs.nn.SphereConv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()))\n"
        "with kernels.interpreted():\n    m(torch.randn(2, 3, 5, 5)).sum().backward()\n"
        "assert kernels.LAUNCHES['grad_kernel'] == 1\n"
        "print([name for name in ('torch._dynamo', 'torch._inductor') if name in sys.modules])"
    )
    done = programs.run(["-c", code], bare=True)
    assert done.stdout.strip() == "[]", done.stderr
