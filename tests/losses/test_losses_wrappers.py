"""Heads in pytorch-metric-learning's CrossBatchMemory and DistributedLossWrapper."""

import copy
import os
import sys

import pytest
import torch
import torch.multiprocessing as mp

import hypersphere as hs

pytest.importorskip("pytorch_metric_learning")
from pytorch_metric_learning.losses import CrossBatchMemory
from pytorch_metric_learning.utils.distributed import DistributedLossWrapper

N, D, C = 12, 8, 5


def data(seed, rows=N):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, D, generator=generator), torch.randint(0, C, (rows,), generator=generator)


def make(name):
    torch.manual_seed(0)
    return getattr(hs.losses, name)(D, C)


@pytest.mark.parametrize("name", ["ArcFace", "ASoftmax", "SphereFace2", "Softmax"])
def test_a_memory_is_further_samples_without_a_gradient(name):
    head = make(name)
    memory = CrossBatchMemory(hs.losses.metric_learning(head), D, memory_size=2 * N)
    first, second = data(1), data(2)
    memory(*first)
    x = second[0].clone().requires_grad_()
    loss = memory(x, second[1])
    remembered = torch.cat([first[0], second[0]]), torch.cat([first[1], second[1]])
    torch.testing.assert_close(loss, head(*second) + head(*remembered))
    (gradient,) = torch.autograd.grad(loss, x)
    y = second[0].clone().requires_grad_()
    torch.testing.assert_close(gradient, torch.autograd.grad(head(y, second[1]), y)[0])
    assert {id(p) for p in memory.parameters()} == {id(p) for p in head.parameters()}


def test_a_memory_moves_no_schedule_and_no_running_mean():
    for head in (hs.losses.ASoftmax(D, C, annealing="sphereface"), hs.losses.AdaFace(D, C)):
        alone, (x, y) = copy.deepcopy(head), data(1)
        alone(x, y)
        hs.losses.metric_learning(head)(x, y, None, 9 * x, y)
        assert head.training
        for own, other in zip(head.buffers(), alone.buffers(), strict=True):
            assert torch.equal(own, other)


def test_a_miner_weighs_the_samples_of_the_batch_not_rows_of_the_memory():
    head = make("ArcFace")
    loss = hs.losses.metric_learning(head)
    (x, y), (rx, ry) = data(1), data(2, 30)
    pairs = tuple(torch.tensor(part) for part in ([0, 0, 3], [29, 28, 27], [0], [25]))
    weights = torch.zeros(N)
    weights[0], weights[3] = 6 / 6, 2 / 6  # each pair counts its anchor twice
    each = make("ArcFace")
    each.reduction = "none"
    torch.testing.assert_close(loss(x, y, pairs, rx, ry), (each(x, y) * weights).mean() + head(rx, ry))
    torch.testing.assert_close(loss(x, y), head(x, y))
    with pytest.raises(ValueError, match="ref_labels"):
        loss(x, y, None, rx)
    with pytest.raises(TypeError, match="head must be"):
        hs.losses.metric_learning(3)


def process(rank, file, out):
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    found = {}
    for kind in ("plain", "memory"):
        loss = hs.losses.metric_learning(make("CosFace"))
        wrapped = DistributedLossWrapper(CrossBatchMemory(loss, D, memory_size=4 * N) if kind == "memory" else loss)
        x, y = data(rank)
        x.requires_grad_()
        value = wrapped(x, y)
        value.backward()
        found[kind] = value.detach(), x.grad, loss.head.weight.grad
    torch.save(found, f"{out}.{rank}")
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(sys.platform == "win32", reason="gloo over a file")
def test_processes_share_their_samples(tmp_path):
    mp.start_processes(process, (str(tmp_path / "meet"), str(tmp_path / "out")), nprocs=2, start_method="fork")
    found = [torch.load(f"{tmp_path / 'out'}.{rank}") for rank in range(2)]
    head = make("CosFace")
    (x0, y0), (x1, y1) = data(0), data(1)
    # each process puts its own rows first; the loss is the mean over all rows, times the number of processes
    x, y = torch.cat([x0, x1]).requires_grad_(), torch.cat([y0, y1])
    loss = 2 * head(x, y)
    loss.backward()
    for rank in range(2):
        value, rows, vectors = found[rank]["plain"]
        torch.testing.assert_close(value, loss.detach())
        torch.testing.assert_close(rows, x.grad[rank * N : (rank + 1) * N])
        torch.testing.assert_close(vectors, head.weight.grad)
        torch.testing.assert_close(found[rank]["memory"][0], 2 * loss.detach())
        torch.testing.assert_close(found[rank]["memory"][1], x.grad[rank * N : (rank + 1) * N])
