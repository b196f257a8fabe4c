"""What a fused block keeps for its backward pass: autograd has all of it, so checkpoints, hooks and versions work."""

import copy
import gc
from contextlib import nullcontext

import pytest
import torch
from fused import conv, plain_operations
from torch import nn
from torch.utils.checkpoint import checkpoint

import hypersphere as hs
from hypersphere.functional.operators import Geometry, Norm, fused_block


def network():
    """A transposed, a depthwise and a linear operator."""
    return nn.Sequential(
        hs.nn.SphereConvTranspose2d(2, 3, 2, stride=2), nn.BatchNorm2d(3), nn.SiLU(),
        conv(3, 3, "sigmoid", "tanh", groups=3), nn.BatchNorm2d(3), nn.PReLU(3),
        nn.Flatten(), hs.nn.SphereLinear(48, 5, angular="linear"), nn.GELU(),
    )  # fmt: skip


def elsewhere():
    """Hooks that take every tensor out of torch, in the usual order of its numbers."""
    return torch.autograd.graph.saved_tensors_hooks(
        lambda t: (t.detach().cpu().numpy().copy("C"), t.device), lambda kept: torch.from_numpy(kept[0]).to(kept[1])
    )


def tensors():
    return {id(one): one for one in gc.get_objects() if type(one) is torch.Tensor}


def bytes_made(run):
    """What a function returns, and how many bytes of tensors that it made exist after it."""
    before, out = tensors(), run()
    gc.collect()
    made = [one.untyped_storage() for key, one in tensors().items() if key not in before]
    return out, sum({one.data_ptr(): one.nbytes() for one in made}.values())


@pytest.mark.parametrize("how", ["hooks", "checkpoint"])
def test_nothing_but_the_output_stays(how):
    model, x = hs.nn.fuse(network()).to(memory_format=torch.channels_last), torch.randn(2, 2, 2, 2, requires_grad=True)
    with plain_operations():
        wanted = torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()])

    def run():
        if how == "checkpoint":
            return checkpoint(model, x, use_reentrant=False, preserve_rng_state=False)
        with elsewhere():
            return model(x)

    out, made = bytes_made(run)
    assert made == out.untyped_storage().nbytes()
    found = torch.autograd.grad(out.square().sum(), [x, *model.parameters()])
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("which", ["x", "0.weight", "1.weight"])
def test_what_was_saved_may_not_be_overwritten(which, kernels):
    model = hs.nn.fuse(nn.Sequential(conv(3, 4), nn.BatchNorm2d(4), nn.ReLU()))
    x = torch.randn(2, 3, 5, 5)
    with nullcontext() if kernels else plain_operations():
        loss = model(x).square().sum()
        with torch.no_grad():
            (x if which == "x" else model.get_parameter(which)).mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_a_graph_can_be_used_once_unless_it_is_retained():
    """Also where a layer is in it twice, and its running statistics moved in between."""
    model = hs.nn.fuse(nn.Sequential(conv(3, 3), nn.BatchNorm2d(3), nn.ReLU()))
    plain, x = copy.deepcopy(model), torch.randn(2, 3, 5, 5)

    def gradients(net):
        loss = net(net(x)).square().sum()
        first, second = (torch.autograd.grad(loss, net[0].weight, retain_graph=again)[0] for again in (True, False))
        torch.testing.assert_close(first, second)
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()
        return first

    mine = gradients(model)
    with plain_operations():
        torch.testing.assert_close(mine, gradients(plain), rtol=1e-4, atol=1e-4)


def test_a_retained_graph_of_several_processes(monkeypatch):
    """The sums that processes exchange are written to in each backward pass."""
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda message, group: message.mul_(2))
    weight, x, ones = torch.randn(3, 3, 3, 3, requires_grad=True), torch.randn(2, 3, 5, 5), torch.ones(3)
    norm = Norm(ones, torch.zeros(3), None, None, None, True, 1e-5, 0.1, "both")
    geometry = Geometry((3, 3), (1, 1), (1, 1), (1, 1))
    h, g = hs.magnitude.resolve("sphere"), hs.angular.resolve("linear")
    loss = fused_block(x, weight, geometry, h, g, norm=norm)[0].pow(3).sum()
    first, second = (torch.autograd.grad(loss, weight, retain_graph=again)[0] for again in (True, False))
    torch.testing.assert_close(first, second)
