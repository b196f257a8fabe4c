"""The processes that share a run, and what they tell one another."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Team:
    """The processes that train together, seen by one of them.

    Attributes:
        rank: Number of this process, 0 to world − 1.
        world: Number of processes that train together.
        device: Device on which this process computes.
        backend: What carries the messages: nccl, gloo (on a CPU, and where processes share a GPU); None for one
            process.
        peers: Machine and number of each process, by rank; empty for one process.

    Example:
        >>> team = hs.runs.Team(rank=0, world=1, device=torch.device("cpu"))
        >>> team.writer, team.agree(False)
        (True, False)
    """

    rank: int
    world: int
    device: torch.device
    backend: str | None = None
    """What carries the messages: nccl, gloo (on a CPU, and where processes share a GPU); None for one process."""
    peers: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    """Machine and number of each process, by rank; empty for one process."""

    @property
    def writer(self) -> bool:
        """Whether this process writes files and shows progress."""
        return self.rank == 0

    def average_gradients(self, parameters: list[nn.Parameter]) -> None:
        """Replace every gradient by its mean over the processes, in one message.

        Gradients of parameters that are split over the processes (DTensors) are left as they are: they belong to one.

        Args:
            parameters: the parameters, in the same order everywhere.
        """
        if self.world == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None and not hasattr(p.grad, "to_local")]
        flat = torch.cat([g.reshape(-1).float() for g in gradients])
        dist.all_reduce(flat)
        flat /= self.world
        parts = flat.split([g.numel() for g in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def sum(self, values: Tensor) -> Tensor:
        """Sum over the processes.

        Args:
            values: a tensor of the same shape everywhere.

        Returns:
            The sum over all processes, the same on each.
        """
        if self.world > 1:
            dist.all_reduce(values)
        return values

    def gather(self, value: Tensor) -> list[Tensor]:
        """Collect a tensor of every process.

        Args:
            value: a tensor of the same shape everywhere.

        Returns:
            The tensors by rank, on the CPU.
        """
        if self.world == 1:
            return [value.cpu()]
        mine = value.to(self.device)
        every = [torch.empty_like(mine) for _ in range(self.world)]
        dist.all_gather(every, mine)
        return [one.cpu() for one in every]

    def agree(self, flag: bool) -> bool:
        """Say whether a flag is set in any process.

        Args:
            flag: the flag of this process; one True makes it True for all.

        Returns:
            True on every process if the flag is set on any.
        """
        return self.smallest(-int(flag)) < 0

    def smallest(self, value: int) -> int:
        """Return the smallest number of all processes.

        Args:
            value: the number that this process contributes.

        Returns:
            The smallest number, the same on every process.
        """
        if self.world == 1:
            return value
        shared = torch.tensor([value], device=self.device)
        dist.all_reduce(shared, dist.ReduceOp.MIN)
        return int(shared.item())

    def follow(self, value: int) -> int:
        """Return the number of the writer.

        Args:
            value: the number that this process contributes.

        Returns:
            The number of the process that writes files.
        """
        if self.world == 1:
            return value
        shared = torch.tensor([value], device=self.device)
        dist.broadcast(shared, 0)
        return int(shared.item())

    def everyone(self, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, int]:
        """Collect the rows of all processes, differentiably.

        Args:
            x: rows of this process, equally many in every process.
            labels: labels of these rows, one for each.

        Returns:
            Rows and labels of all processes, and where those of this one begin.
        """
        names = [torch.empty_like(labels) for _ in range(self.world)]
        dist.all_gather(names, labels.contiguous())
        return _Gather.apply(x.contiguous(), self.rank, self.world), torch.cat(names), self.rank * len(labels)

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.world > 1:
            dist.barrier()


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
