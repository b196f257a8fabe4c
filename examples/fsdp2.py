"""Weights in shards with FSDP2 (``fully_shard``): ``torchrun --nproc-per-node 2 examples/fsdp2.py``.

Layers, heads, energies and weight projection take DTensor weights. The checkpoint is gathered at the end and loads into
an ordinary network.
"""

from __future__ import annotations

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import hypersphere as hs


def build() -> nn.Sequential:
    """A small twin of an ordinary network."""
    plain = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * 16, 10),
    )  # fmt: skip
    twin = hs.convert(plain, angular="sigmoid")
    assert isinstance(twin, nn.Sequential)
    return twin


def main(steps: int = 10) -> float:
    """Train on the digits of scikit-learn; return the last loss. The gathered weights are tried in one process."""
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    else:
        dist.init_process_group("gloo", init_method=f"file://{tempfile.mkstemp()[1]}", rank=0, world_size=1)
    try:
        return _train(steps)
    finally:
        dist.destroy_process_group()


def _train(steps: int) -> float:
    kind, rank, world = "cuda" if torch.cuda.is_available() else "cpu", dist.get_rank(), dist.get_world_size()
    if kind == "cuda":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    torch.manual_seed(0)
    digits = hs.data.load("digits").train
    images, labels = hs.data.normalize(digits.images).to(kind), digits.labels.to(kind)
    model = build().to(kind)
    mesh = init_device_mesh(kind, (world,))
    for layer in (model[0], model[3], model[7]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(hs.optim.parameter_groups(model, 1e-2), lr=1e-2)
    loss = torch.zeros(())
    for step in range(steps):
        rows = torch.randint(len(labels), (64,), generator=torch.Generator().manual_seed(step))[rank::world]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
        loss.backward()
        optimizer.step()
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    model.eval()
    with torch.no_grad():
        sharded = model(images[:8]).cpu()  # every process takes part
    if rank == 0:
        alone = build().eval()
        alone.load_state_dict(whole)
        with torch.no_grad():
            torch.testing.assert_close(alone(images[:8].cpu()), sharded, rtol=1e-3, atol=1e-4)
    return float(loss.detach())


if __name__ == "__main__":
    print(f"loss {main():.4f}")
