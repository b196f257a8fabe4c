"""Data parallel training under torchrun: the same global batch, gradients and statistics averaged."""

from __future__ import annotations

import atexit
import os
import socket
from contextlib import suppress
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from .._core import torchrun
from .._core.leftovers import this_host
from .._core.processes import moments
from ..losses import MarginSoftmax
from ..losses.batch import BatchWide
from ..magnitude import WithRadius
from ..nn.absorb import change_class
from ..runs import Team, usable_device


def team(device: str) -> Team:
    """The processes that torchrun started, or this one alone. They meet once and stay together until they exit."""
    world, rank, local = torchrun.world(), torchrun.rank(), int(os.environ.get("LOCAL_RANK", "0"))
    chosen = _device(device, local if world > 1 else None)
    if chosen.type == "cuda":
        torch.cuda.set_device(chosen)
    if world > 1 and not dist.is_initialized():
        _prefer_loopback(world)
        backend = _backend(chosen)
        options: dict[str, Any] = {"device_id": chosen} if backend == "nccl" else {}
        _meet(backend, rank, world, options)
        atexit.register(_part)
    if world == 1:
        return Team(rank, world, chosen)
    return Team(rank, world, chosen, dist.get_backend(), _peers(world))


def synchronize(model: nn.Module, team: Team) -> nn.Module:
    """Equal weights everywhere; BatchNorm, running numbers of h and heads, and pairs of samples of the global batch."""
    if team.world == 1:
        return model
    model = synchronized(model)
    for module in model.modules():
        if isinstance(module, WithRadius) and module.running:
            _share_mean(module)
        if isinstance(module, BatchWide) or (isinstance(module, MarginSoftmax) and module.observes):
            module.everyone = team.everyone
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), 0)
    return model


def _meet(backend: str, rank: int, world: int, options: dict[str, Any]) -> None:
    """Join the others.

    ``torchrun --max-restarts`` keeps one store for all its attempts, where gloo would find the addresses of processes
    that are gone: each attempt looks under a name of its own. Machines may count their attempts differently, so that
    only one machine can do so.
    """
    try:
        store, _, _ = next(dist.rendezvous("env://", rank, world))  # type: ignore[attr-defined]
        if _on_one_machine(world):
            attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
            store = dist.PrefixStore(f"attempt-{attempt}", store)  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=rank, world_size=world, **options)
    except RuntimeError as error:
        reason = str(error).strip().partition("\n")[0][:200]
        raise ConnectionError(
            f"rank {rank} could not meet the others of {world} processes ({reason}): give the torchrun command again"
        ) from error


def _on_one_machine(world: int) -> bool:
    return int(os.environ.get("LOCAL_WORLD_SIZE", "0")) == world


def _backend(device: torch.device) -> str:
    """Nccl where each process of this machine has its own GPU, else gloo."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return "nccl" if device.type == "cuda" and here <= torch.cuda.device_count() else "gloo"


@lru_cache(maxsize=1)
def _peers(world: int) -> tuple[tuple[str, int], ...]:
    """Machine and number of each process: whoever is missing later can be named."""
    every: list[Any] = [None] * world
    dist.all_gather_object(every, (this_host(), os.getpid()))
    return tuple((str(host), int(pid)) for host, pid in every)


def _part() -> None:
    if dist.is_initialized():
        with suppress(Exception):  # the others may be gone
            dist.destroy_process_group()


def _prefer_loopback(world: int) -> None:
    """Gloo asks the host's name for an address, which may lead nowhere; on one machine the loopback always works."""
    if _on_one_machine(world) and any(name == "lo" for _, name in socket.if_nameindex()):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")


def _device(name: str, local: int | None) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"run.device={name!r}, but this machine has no GPU that torch can use: choose cpu")
    if name == "cuda":
        name = f"cuda:{(local or 0) % torch.cuda.device_count()}"
    return usable_device(name, argument="run.device")


def _share_mean(module: WithRadius) -> None:
    """The running norm sees the mean over the global batch; its own code takes the mean of what it is given.

    Fused code would take the mean over the batch of its own process: in training there is no form for it to fuse.
    """
    own, form = module._mean_norm, module.closed_form

    def shared(n: Tensor) -> Tensor:
        if not module.training or n.numel() == 0:
            return own(n)
        mean = n.detach().float().mean().reshape(1)
        dist.all_reduce(mean)
        return own(mean / dist.get_world_size())

    module._mean_norm = shared  # type: ignore[method-assign]
    module.closed_form = lambda: None if module.running and module.training else form()  # type: ignore[method-assign]


class SynchronizedBatchNorm(_BatchNorm):
    """(x − mean)/√(var + eps)·weight + bias with mean and variance over the batches of all processes.

    Forward and backward each send one message of two numbers a channel. Evaluation, and training in one process,
    are torch's BatchNorm. Same parameters, buffers and ``state_dict``.
    """

    def statistics_group(self) -> None:
        """The processes whose batches count as one, for blocks that compute it with an operator: all of them."""

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or not dist.is_initialized() or dist.get_world_size() == 1:
            return super().forward(input)
        x = input.float()
        mean, var, total = moments(x)
        self._track(mean.detach(), var.detach(), total.detach())
        shape = [1, -1] + [1] * (input.dim() - 2)
        scale = (var + self.eps).rsqrt()
        if self.affine:
            scale = scale * self.weight
        out = (x - mean.view(shape)) * scale.view(shape)
        if self.affine:
            out = out + self.bias.view(shape)
        return out.to(input.dtype)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected (N, C, ...) input, got {tuple(input.shape)}")

    def _track(self, mean: Tensor, var: Tensor, total: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        momentum = self.momentum if self.momentum is not None else 1.0 / self.num_batches_tracked.float()
        unbiased = var * (total / (total - 1))
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), momentum)
        self.running_var.lerp_(unbiased.to(self.running_var.dtype), momentum)


def synchronized(module: nn.Module) -> nn.Module:
    """Make every BatchNorm in ``module`` a synchronized one; all else of it stays."""
    for part in module.modules():
        if isinstance(part, _BatchNorm) and not isinstance(part, SynchronizedBatchNorm):
            change_class(part, SynchronizedBatchNorm)
    return module
