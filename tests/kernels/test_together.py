"""BatchNorm's statistics over several processes: two that have the same batch are one that has it twice."""

import copy
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from fused import compare, conv, plain_operations
from torch import nn

import hypersphere as hs
from hypersphere.kernels import LAUNCHES, block
from hypersphere.kernels.spec import Fields, Window, spec_of
from hypersphere.train.distributed import synchronized

WINDOW = Window((3, 3), (1, 1), (1, 1), (1, 1))


def passes(x, dz, k, group=None):
    """Outputs, gradients and running statistics."""
    torch.manual_seed(1)
    weight, gamma, beta = torch.randn(5, 3, 3, 3), torch.rand(5) + 0.5, torch.randn(5)
    state = (torch.zeros(5), torch.ones(5), torch.zeros((), dtype=torch.long))
    fields = Fields(WINDOW, "sigmoid", None, norm="train", activation="relu")
    t = block.Inputs(x, None, weight, k, gamma=gamma, beta=beta, mean=state[0], var=state[1], tracked=state[2])
    z, q, read, kept = block.forward(spec_of(fields), t, group=group)
    need = tuple(v is not None and i != 1 for i, v in enumerate(t[:10]))
    dq = torch.full_like(q, 0.1)
    found = [block.backward(spec_of(fields), t._replace(x=read), kept, dz, dq, need, fresh, group) for fresh in (1, 0)]
    return z, found, state


def test_two_processes_with_the_same_batch(monkeypatch):
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda message, group: message.mul_(2))
    x, dz, k = torch.randn(2, 3, 5, 4), torch.randn(2, 5, 5, 4), torch.rand(5) + 0.2
    z, found, state = passes(x, dz, k, group="both")
    assert LAUNCHES["finish_kernel"] == 3  # the table forward, and twice what the statistics add to gradients
    whole, (expected, _), statistics = passes(torch.cat([x, x]), torch.cat([dz, dz]), k)
    torch.testing.assert_close(z, whole[:2], rtol=1e-5, atol=1e-5)
    for mine, theirs in zip(state, statistics, strict=True):
        torch.testing.assert_close(mine, theirs)
    for grads in found:  # the second backward pass of a graph that was kept gives the same
        torch.testing.assert_close(grads.x, expected.x[:2], rtol=1e-4, atol=1e-5)
        for name in ("weight", "k", "gamma", "beta"):
            mine, theirs = getattr(grads, name), getattr(expected, name)
            torch.testing.assert_close(2 * mine, theirs, rtol=1e-4, atol=1e-4)


class Unit(nn.Module):
    """Attributes instead of a row: the convolution computes all three."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn, self.act = conv(3, 4, "sigmoid"), nn.BatchNorm2d(4), nn.ReLU()

    def forward(self, x):
        return self.act(self.bn(self.conv(x)))


@pytest.mark.parametrize("unit", [False, True])
def test_the_synchronized_batchnorm_of_the_program_is_part_of_a_block(unit, monkeypatch):
    """As by plain operations, if all_reduce finds that another process has the same batch."""
    made = {"is_initialized": lambda: True, "get_world_size": lambda group=None: 2}
    made |= {"group": SimpleNamespace(WORLD="all"), "all_reduce": lambda message, group=None: message.mul_(2)}
    for name, value in made.items():
        monkeypatch.setattr(torch.distributed, name, value)
    model = Unit() if unit else nn.Sequential(*Unit().children())
    plain = synchronized(copy.deepcopy(model))
    model = synchronized(hs.nn.fuse(model))
    compare(model, plain, torch.randn(2, 3, 5, 4), 1e-4)
    assert LAUNCHES["finish_kernel"] == 2


@pytest.mark.parametrize("fused", [True, False])
def test_second_derivatives_of_several_processes(fused, monkeypatch):
    """The other process has its own batch, and a loss of 0: what it sends is its sums, and then no gradients."""
    plain, x, other = Unit(), torch.randn(2, 3, 5, 4, requires_grad=True), torch.randn(3, 3, 5, 4)
    model = synchronized(hs.nn.fuse(copy.deepcopy(plain)) if fused else copy.deepcopy(plain))

    def second(net, run):
        (grad,) = torch.autograd.grad(run(net).pow(3).sum(), x, create_graph=True)
        return grad.detach(), *torch.autograd.grad(grad.square().sum(), [x, net.bn.weight])

    with plain_operations():
        expected = second(plain, lambda net: net(torch.cat([x, other]))[:2])
        theirs = plain.conv(other).detach()
    sums = torch.cat([theirs.sum((0, 2, 3)), theirs.square().sum((0, 2, 3)), torch.tensor([60.0])])
    sent = [sums, sums] if fused else [sums]  # kernels, and then the definition that is differentiated
    count = torch.tensor([0.0] * 8 + [60.0])  # which kernels send with gradients, too

    def all_reduce(message, group=None):
        message.add_(sent.pop() if sent else count * (message.dtype == torch.float64))

    made = {"is_initialized": lambda: True, "get_world_size": lambda group=None: 2}
    made |= {"group": SimpleNamespace(WORLD="all"), "all_reduce": all_reduce}
    for name, value in made.items():
        monkeypatch.setattr(torch.distributed, name, value)
    with nullcontext() if fused else plain_operations():
        found = second(model, lambda net: net(x))
    assert not sent
    for mine, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-3, atol=1e-3 * float(wanted.abs().max()))
