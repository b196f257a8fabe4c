"""Within a compiled training step: no graph break, and the values and the state of eager code."""

import copy
from functools import partial

import pytest
import torch
from torch import nn

import hypersphere as hs

pytestmark = pytest.mark.slow

A = hs.attacks


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def make_network():
    return nn.Sequential(
        hs.nn.DecoupledConv2d(3, 4, 3, magnitude="ball"), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 4)
    ).train()


@pytest.mark.parametrize(("attack", "bounds"), [("fgsm", "numbers"), ("bim", "tensors")])
def test_traced_whole_in_a_training_step(attack, bounds):
    clip = (0.0, 1.0) if bounds == "numbers" else (torch.zeros(3, 1, 1), torch.ones(3, 1, 1))
    eps = 0.1 if bounds == "numbers" else torch.full((3, 1, 1), 0.1)
    options = {"iterations": 2} if attack == "bim" else {}
    make = partial(getattr(A, attack), eps=eps, clip=clip, **options)
    nets = [make_network()]
    nets.append(copy.deepcopy(nets[0]))
    x, labels = torch.rand(6, 3, 6, 6), torch.tensor([0, 1, 2, 3, -100, 1])

    def step(net, x, labels):
        inputs, classes = A.adversarial_batch(net, x, labels, make)
        return nn.functional.cross_entropy(net(inputs), classes), inputs

    results = [step(nets[0], x, labels)]
    results.append(torch.compile(step, backend="eager", fullgraph=True)(nets[1], x, labels))
    for loss, _ in results:
        loss.backward()
    assert (results[0][1] == results[1][1]).float().mean() > 0.99
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(nets[0].buffers(), nets[1].buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=0.05, atol=5e-3)
    assert nets[1][1].num_batches_tracked == 1


def test_inductor_under_autocast_against_predictions():
    net = nn.Sequential(nn.Flatten(), nn.Linear(108, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4)).train()
    make = partial(A.fgsm, eps=0.1, clip=(0.0, 1.0))
    x, labels = torch.rand(6, 3, 6, 6), torch.tensor([0, 1, 2, 3, 0, 1])

    def step(x, labels):
        with torch.autocast("cpu", torch.bfloat16):
            inputs, classes = A.adversarial_batch(
                net, x, labels, make, mixture="replace", fraction=0.5, against="predictions"
            )
            return nn.functional.cross_entropy(net(inputs), classes), inputs

    loss, inputs = torch.compile(step, fullgraph=True)(x, labels)
    loss.backward()
    assert torch.equal(inputs[3:], x[3:])
    change = (inputs[:3] - x[:3]).abs()
    assert change.max() <= 0.1 + 1e-6
    assert (change > 0.09).float().mean() > 0.5
    assert all(p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.gpu
def test_captured_in_a_cuda_graph():
    net = make_network().cuda()
    pixels = A.pixels("standard", mean=(0.5,) * 3, std=(0.25,) * 3, device="cuda")
    make = partial(A.bim, eps=pixels.eps(8), clip=pixels.clip, iterations=3, check=False)
    x, labels = torch.rand(6, 3, 6, 6, device="cuda"), torch.tensor([0, 1, 2, 3, 0, 1], device="cuda")

    def step():
        return A.adversarial_batch(net, x, labels, make)[0]

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    x.copy_(torch.rand_like(x))
    graph.replay()
    assert (captured - step()).abs().lt(1e-5).float().mean() > 0.99
