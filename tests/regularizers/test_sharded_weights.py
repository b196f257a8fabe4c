"""Weights in parts on several processes (FSDP2): seen whole by energies and regularizers, with gradients in parts."""

import os

import pytest
import torch
import torch.multiprocessing as mp
from torch import nn

import hypersphere as hs
from hypersphere.functional import energy
from hypersphere.regularizers import MHE, SRIP, CoMHE, Orthonormal

REGULARIZERS = {
    "MHE": lambda model: MHE(model, half_space=True),
    "CoMHE": lambda model: CoMHE(model, dim=4, refresh=2),
    "Orthonormal": lambda model: Orthonormal(model, 0.1),
    "SRIP": lambda model: SRIP(model, 0.1),
}


def network():
    torch.manual_seed(0)
    conv = hs.nn.DecoupledConv2d(3, 6, 3, magnitude="tanh", angular="cosine")
    return nn.Sequential(conv, nn.Flatten(), nn.Linear(54, 10), nn.Linear(10, 4))


def work(rank, world, port, path):
    from torch.distributed import destroy_process_group, init_process_group
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    init_process_group("gloo", rank=rank, world_size=world)
    try:
        mesh = init_device_mesh("cpu", (world,))
        model = fully_shard(network(), mesh=mesh)
        results = {"energy": energy(model[2].weight).item()}
        for name, make in REGULARIZERS.items():
            model.zero_grad()
            reg = make(model)
            reg()
            value = reg()
            value.backward()
            grads = [p.grad.full_tensor() for p in (model[0].weight, model[2].weight)]
            results[name] = value.detach(), grads
        results["logits"] = model(torch.ones(2, 3, 5, 5)).detach()  # after which the weights stay gathered
        if rank == 0:
            torch.save(results, path)
    finally:
        destroy_process_group()


@pytest.mark.slow
def test_fully_sharded(tmp_path):
    mp.start_processes(work, (2, 20000 + os.getpid() % 20000, tmp_path / "found.pt"), 2, start_method="fork")
    found = torch.load(tmp_path / "found.pt", weights_only=True)
    model = network()
    assert found["energy"] == pytest.approx(energy(model[2].weight).item(), rel=1e-6)
    torch.testing.assert_close(found["logits"], model(torch.ones(2, 3, 5, 5)).detach())
    for name, make in REGULARIZERS.items():
        model.zero_grad()
        reg = make(model)
        reg()
        value = reg()
        value.backward()
        torch.testing.assert_close(found[name][0], value.detach())
        for grad, weight in zip(found[name][1], (model[0].weight, model[2].weight), strict=True):
            torch.testing.assert_close(grad, weight.grad)
