"""Data parallel training under torchrun: the same global batch, gradients and statistics averaged."""

from __future__ import annotations

import atexit
import os
import socket
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..losses.batch import BatchWide
from ..magnitude import WithRadius
from .batchnorm import synchronized
from .device import usable_device

__all__ = ["Team", "team"]


@dataclass(frozen=True)
class Team:
    """This process among ``world``."""

    rank: int
    world: int
    device: torch.device
    backend: str | None = None
    """What carries the messages: nccl, gloo (on a CPU, and where processes share a GPU); None for one process."""

    @property
    def writer(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def synchronize(self, model: nn.Module) -> nn.Module:
        """Equal weights everywhere; BatchNorm, running norms of h and pairs of samples over the global batch."""
        if self.world == 1:
            return model
        model = synchronized(model)
        for module in model.modules():
            if isinstance(module, WithRadius) and module.running:
                _share_mean(module)
            if isinstance(module, BatchWide):
                module.everyone = self.everyone
        for tensor in (*model.parameters(), *model.buffers()):
            dist.broadcast(tensor.detach(), 0)
        return model

    def average_gradients(self, parameters: list[nn.Parameter]) -> None:
        """Replace every gradient by its mean over the processes, in one message."""
        if self.world == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([g.reshape(-1).float() for g in gradients])
        dist.all_reduce(flat)
        flat /= self.world
        parts = flat.split([g.numel() for g in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def sum(self, values: Tensor) -> Tensor:
        """The sum over the processes."""
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def gather(self, value: Tensor) -> list[Tensor]:
        """The tensors of all processes, which have one shape, on the CPU."""
        if self.world == 1:
            return [value.cpu()]
        mine = value.to(self.device)
        every = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(every, mine)
        return [one.cpu() for one in every]

    def agree(self, flag: bool) -> bool:
        """Whether any process says so."""
        return self.smallest(-int(flag)) < 0

    def smallest(self, value: int) -> int:
        """The smallest over the processes."""
        if self.world == 1:
            return value
        shared = torch.tensor([value], device=self.device)
        dist.all_reduce(shared, dist.ReduceOp.MIN)
        return int(shared.item())

    def follow(self, value: int) -> int:
        """What the writer says."""
        if self.world == 1:
            return value
        shared = torch.tensor([value], device=self.device)
        dist.broadcast(shared, 0)
        return int(shared.item())

    def everyone(self, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, int]:
        """Rows and labels of all processes, differentiably, and where those of this one begin."""
        names = [torch.empty_like(labels) for _ in range(self.world)]
        dist.all_gather(names, labels.contiguous())
        return _Gather.apply(x.contiguous(), self.rank, self.world), torch.cat(names), self.rank * len(labels)

    def wait(self) -> None:
        if self.world > 1:
            dist.barrier()


def team(device: str) -> Team:
    """The processes that torchrun started, or this one alone. They meet once and stay together until they exit."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    rank, local = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_RANK", "0"))
    chosen = _device(device, local if world > 1 else None)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    if world > 1 and not dist.is_initialized():
        _prefer_loopback(world)
        backend = _backend(chosen)
        options: dict[str, Any] = {"device_id": chosen} if backend == "nccl" else {}
        dist.init_process_group(backend, **options)
        atexit.register(_part)
    return Team(rank, world, chosen, dist.get_backend() if world > 1 else None)


def _backend(device: torch.device) -> str:
    """Nccl where each process of this machine has a GPU of its own, else gloo."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return "nccl" if device.type == "cuda" and here <= torch.cuda.device_count() else "gloo"


def _part() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def _prefer_loopback(world: int) -> None:
    """Gloo asks the host's name for an address, which may lead nowhere; on one machine the loopback always works."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "0"))
    if here == world and any(name == "lo" for _, name in socket.if_nameindex()):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def _device(name: str, local: int | None) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"run.device={name!r}, but this machine has no GPU that torch can use: choose cpu")
    if name == "cuda":
        name = f"cuda:{(local or 0) % torch.cuda.device_count()}"
    return usable_device(name, argument="run.device")


class _Gather(torch.autograd.Function):
    """The rows of all processes; the gradient of a row is the sum of what all of them want of it."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, rank: int, world: int) -> Tensor:
        ctx.own = slice(rank * len(rows), (rank + 1) * len(rows))
        every = [torch.empty_like(rows) for _ in range(world)]
        dist.all_gather(every, rows)
        return torch.cat(every)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        out = gradients[0].clone()
        dist.all_reduce(out)
        return out[ctx.own], None, None


def _share_mean(module: WithRadius) -> None:
    """The running norm sees the mean over the global batch; its own code takes the mean of what it is given."""
    own = module._mean_norm

    def shared(n: Tensor) -> Tensor:
        if not module.training or n.numel() == 0:
            return own(n)
        mean = n.detach().float().mean().reshape(1)
        dist.all_reduce(mean)
        return own(mean / dist.get_world_size())

    module._mean_norm = shared  # type: ignore[method-assign]
