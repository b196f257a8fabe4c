"""Several processes with DistributedDataParallel: ``torchrun --nproc-per-node 2 examples/ddp.py``.

The head lies in the wrapped module, so that the gradients of its class vectors are averaged as well. Without torchrun
the same code is one process. For so many classes that they do not fit one device, see ``hs.losses.shard``.
"""

from __future__ import annotations

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hypersphere as hs


class Trained(nn.Module):
    """Network, head and penalty in one forward pass, which is what DistributedDataParallel wants."""

    def __init__(self) -> None:
        super().__init__()
        self.network = hs.models.create("cnn3", 0, in_channels=1, image_size=8, widths=(8, 8, 8), conv="sphere")
        self.head = hs.losses.AMSoftmax(self.network.feature_dim, 10, margin=0.2, scale=16.0)
        self.energy = hs.regularizers.MHE(self.network, head=self.head, hidden=0.01, output=0.01)

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = self.head(self.network(images), labels) + self.energy()
        return loss


def main(steps: int = 20) -> float:
    """Train on the digits of scikit-learn, each process on its share of every batch; return the last loss."""
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    else:
        dist.init_process_group("gloo", init_method=f"file://{tempfile.mkstemp()[1]}", rank=0, world_size=1)
    try:
        return _train(steps)
    finally:
        dist.destroy_process_group()


def _train(steps: int) -> float:
    rank, world = dist.get_rank(), dist.get_world_size()
    device = torch.device(f"cuda:{rank % torch.cuda.device_count()}" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    digits = hs.data.load("digits").train
    images, labels = hs.data.normalize(digits.images).to(device), digits.labels.to(device)
    model = DistributedDataParallel(Trained().to(device))
    optimizer = torch.optim.SGD(hs.optim.parameter_groups(model, 5e-4), lr=0.05, momentum=0.9)
    projection = hs.optim.WeightProjection(model.module.network, every=10)
    loss = torch.zeros(())
    for step in range(steps):
        rows = torch.randint(len(labels), (64,), generator=torch.Generator().manual_seed(step))[rank::world]
        optimizer.zero_grad()
        loss = model(images[rows], labels[rows])
        loss.backward()
        optimizer.step()
        projection.step()
    return float(loss.detach())


if __name__ == "__main__":
    print(f"loss {main():.4f}")
