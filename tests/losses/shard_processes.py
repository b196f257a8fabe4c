"""What each of several processes does in the tests of sharded heads, and how they are started."""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
import traceback
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

import hypersphere as hs

N, D, C = 12, 6, 11
L = hs.losses
HEADS = {
    "arcface": lambda: L.ArcFace(D, C, dtype=torch.float64),
    "softmax": lambda: L.Softmax(D, C, bias=True, dtype=torch.float64, label_smoothing=0.1,
                                 class_weight=torch.linspace(0.5, 2, C, dtype=torch.float64), chunk=2),
    "curricular": lambda: L.CurricularFace(D, C, dtype=torch.float64, momentum=0.3),
    "adaface": lambda: L.AdaFace(D, C, dtype=torch.float64, momentum=0.3),
    "magface": lambda: L.MagFace(D, C, dtype=torch.float64, lower_norm=0.1, upper_norm=4.0),
    "annealed": lambda: L.SphereFaceR(D, C, dtype=torch.float64, annealing="sphereface"),
    "sphereface2": lambda: L.SphereFace2(D, C, dtype=torch.float64),
    "subcenter": lambda: L.SubcenterArcFace(D, 12, dtype=torch.float64, sub_centers=2),
    "k": lambda: L.GASoftmax(D, C, 2, angular=hs.angular.Sigmoid(learnable=True), bias=True, dtype=torch.float64),
    "one k": lambda: L.WSoftmax(D, 5, angular=hs.angular.Sigmoid(learnable=True, share="layer"), dtype=torch.float64),
    "few": lambda: L.CosFace(D, 5, dtype=torch.float64),
}  # fmt: skip


def batch(classes, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(N, D, generator=generator, dtype=torch.float64)
    y = torch.randint(0, classes, (N,), generator=generator)
    y[1] = -100
    return x, y


def make(name):
    """A head and a backbone, on the device and in the precision of :data:`WHERE`."""
    torch.manual_seed(0)
    return HEADS[name]().to(*WHERE), nn.Linear(D, D, dtype=torch.float64).to(*WHERE)


WHERE = ["cpu", torch.float64]


def outcome(loss, head, backbone):
    """Loss, gradients and buffers after a step, everything whole."""
    grads = {name: whole(p.grad).clone() for name, p in head.named_parameters()}
    grads |= {f"backbone.{name}": p.grad.clone() for name, p in backbone.named_parameters()}
    return {"loss": loss.detach(), **grads, **{n: whole(b).clone() for n, b in head.named_buffers()}}


def whole(t):
    """All rows of a DTensor; its own ``full_tensor`` crashes where gloo carries tensors of a GPU."""
    if not hasattr(t, "to_local"):
        return t
    world, part = dist.get_world_size(), t.to_local()
    rows = -(-t.shape[0] // world)
    padded = torch.cat([part, part.new_zeros(rows - len(part), *part.shape[1:])])
    parts = [torch.empty_like(padded) for _ in range(world)]
    dist.all_gather(parts, padded)
    return torch.cat(parts)[: t.shape[0]]


def alone(name):
    head, backbone = make(name)
    x, y = placed(head.num_classes)
    loss = head(backbone(x), y)
    loss.backward()
    return outcome(loss, head, backbone)


def placed(classes):
    x, y = batch(classes)
    return x.to(*WHERE), y.to(WHERE[0])


def together(name, rank, world):
    """The same with the batch and the classes shared out."""
    head, backbone = make(name)
    mesh = init_device_mesh(WHERE[0], (world,))
    L.shard(head, mesh)
    model = DistributedDataParallel(backbone)
    x, y = (t.chunk(world)[rank] for t in placed(head.num_classes))
    loss = head(model(x), y)
    loss.backward()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    found = outcome(mean / world, head, backbone)
    logits = head.logits(backbone(x))
    assert logits.shape == (len(x), head.num_classes)
    torch.testing.assert_close(logits, make(name)[0].logits(backbone(x)))
    return found


def compare(rank, world, folder, names=tuple(HEADS), rtol=1e-6, atol=1e-9):
    for name in names:
        expected = alone(name)
        for key, value in together(name, rank, world).items():
            torch.testing.assert_close(
                value, expected[key], rtol=rtol, atol=atol, msg=lambda m, k=(name, key): f"{k}: {m}"
            )


def compare_on_a_gpu(rank, world, folder):
    """Both processes on the first GPU; NCCL takes each GPU once, so gloo carries what they say."""
    WHERE[0] = "cuda"
    compare(rank, world, folder)
    hs.kernels.enable(*hs.kernels.FAMILIES)
    compare_by_kernels(rank, world, folder)


def compare_by_kernels(rank, world, folder):
    """In float32, and with products in bfloat16; on a CPU in Triton's interpreter."""
    WHERE[1] = torch.float32
    hs.kernels.LAUNCHES.clear()
    with nullcontext() if WHERE[0] == "cuda" else hs.kernels.interpreted():
        compare(rank, world, folder, ("arcface",), 1e-4, 1e-5)
        assert hs.kernels.LAUNCHES["gradient_kernel"] == 2  # alone and together
        with torch.autocast(WHERE[0], torch.bfloat16):
            compare(rank, world, folder, ("arcface",), 0.05, 0.02)


def sample(rank, world, folder):
    """Partial FC: only some classes get a gradient, those of the batch all; the loss is that of the chosen classes."""
    classes = 400
    torch.manual_seed(0)
    head = L.shard(L.ArcFace(D, classes), init_device_mesh("cpu", (world,)), rate=0.1)
    x, y = batch(classes, 3)
    x, y = x.float().chunk(world)[rank], y.clamp_min(0).chunk(world)[rank]
    torch.manual_seed(rank)
    loss = head(x, y)
    loss.backward()
    moved = head.weight.grad.full_tensor().norm(dim=1) > 0
    assert moved.sum() == world * max(round(0.1 * classes / world), N)
    assert moved[batch(classes, 3)[1].clamp_min(0)].all()
    whole = L.ArcFace(D, classes)
    whole.load_state_dict({"weight": head.weight.full_tensor()})
    assert loss < whole(x, y)
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    everything, labels = batch(classes, 3)
    keep = moved.nonzero()[:, 0]
    few = L.ArcFace(D, len(keep))
    few.load_state_dict({"weight": head.weight.full_tensor()[keep]})
    expected = few(everything.float(), torch.searchsorted(keep, labels.clamp_min(0)))
    torch.testing.assert_close(mean / world, expected)


def train(head, steps, rank, world, start=0):
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(start, start + steps):
        x, y = batch(C, step)
        optimizer.zero_grad()
        loss = head(x.chunk(world)[rank], y.chunk(world)[rank])
        loss.backward()
        optimizer.step()
        value = loss.detach().clone()
        if world > 1:
            dist.all_reduce(value)
        losses.append(value.item() / world)
    return losses


def save(rank, world, folder):
    torch.manual_seed(0)
    head = L.shard(L.CurricularFace(D, C, dtype=torch.float64), init_device_mesh("cpu", (world,)))
    train(head, 2, rank, world)
    dcp.save({"head": head.state_dict()}, checkpoint_id=folder)
    losses = train(head, 2, rank, world, 2)
    if rank == 0:
        Path(folder, "losses.txt").write_text(repr(losses))


def load(rank, world, folder):
    torch.manual_seed(5)  # other class vectors, until they are loaded
    head = L.shard(L.CurricularFace(D, C, dtype=torch.float64), init_device_mesh("cpu", (world,)))
    state = {"head": head.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    head.load_state_dict(state["head"])
    losses = train(head, 2, rank, world, 2)
    expected = eval(Path(folder, "losses.txt").read_text())
    torch.testing.assert_close(losses, expected, rtol=1e-9, atol=1e-12)


def refuse(rank, world, folder):
    mesh = init_device_mesh("cpu", (world,))
    learns = type("Learns", (hs.angular.Sigmoid,), {"from_cos": lambda self, c: c * self.k})(learnable=True)
    for head, rate, reason in (
        (L.ArcFace(4, 5), 1.5, r"rate=1\.5"),
        (L.ArcFace(4, 5, label_smoothing=0.1), 0.5, r"label_smoothing=0\.1"),
        (L.WSoftmax(4, 5, angular=learns, chunk=None), 1.0, "learns something"),
        (L.SubcenterArcFace(4, 5), 1.0, "multiple of 2 processes"),
        (L.shard(L.ArcFace(4, 5), mesh), 1.0, "sharded already"),
    ):
        with pytest.raises(ValueError, match=reason):
            L.shard(head, mesh, rate=rate)
    frozen = L.shard(L.Softmax(4, 5, bias=True).requires_grad_(False), mesh)
    assert not any(one.requires_grad for one in frozen.parameters())
    again = L.shard(L.WSoftmax(4, 5, angular=hs.angular.Sigmoid(learnable=True)), mesh)
    again.angular.raw_k.data.zero_()
    again.reset_parameters()  # as after to_empty, of parameters in parts
    torch.testing.assert_close(again.angular.k.full_tensor(), torch.full((5,), 0.5))
    with pytest.raises(ValueError, match="head is sharded"):
        L.SphereFacePlus(frozen)


def run(job, world, folder=""):
    """``job(rank, world, folder)`` in ``world`` processes that reach each other by gloo.

    Where a GPU is, they begin anew: a fork of a process that has used it cannot.
    """
    start = "spawn" if torch.cuda.is_available() else "fork"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.start_processes(_process, (job.__name__, world, port, str(folder)), world, start_method=start)


def _process(rank, job, world, port, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    torch.set_num_threads(1)
    faulthandler.enable()
    dist.init_process_group("gloo", rank=rank, world_size=world)
    try:
        globals()[job](rank, world, folder)
    except BaseException:
        traceback.print_exc(file=sys.stderr)
        raise
    finally:
        dist.destroy_process_group()
