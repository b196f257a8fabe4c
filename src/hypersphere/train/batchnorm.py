"""BatchNorm over the global batch of all processes, on any backend (torch's own needs CUDA)."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class SynchronizedBatchNorm(_BatchNorm):
    """(x − mean)/√(var + eps)·weight + bias with mean and variance over the batches of all processes.

    Forward and backward each send one message of two numbers a channel. Evaluation, and training in one process,
    are torch's BatchNorm. Same parameters, buffers and ``state_dict``.
    """

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or not dist.is_initialized() or dist.get_world_size() == 1:
            return super().forward(input)
        axes = [axis for axis in range(input.dim()) if axis != 1]
        x = input.float()
        count = x.numel() // x.shape[1]
        sums = _Sum.apply(torch.cat([x.sum(axes), (x * x).sum(axes), x.new_tensor([float(count)])]))
        total = sums[-1]
        mean, square = (sums[:-1] / total).chunk(2)
        var = (square - mean * mean).clamp_min(0)
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


class _Sum(torch.autograd.Function):
    """The sum over processes; its gradient is summed as well, since every process used the sum."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        out = values.clone()
        dist.all_reduce(out)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        out = gradients[0].clone()
        dist.all_reduce(out)
        return out


def synchronized(module: nn.Module) -> nn.Module:
    """Replace every BatchNorm in ``module`` (in place, parameters kept) by a synchronized one."""
    for name, child in module.named_children():
        module.set_submodule(name, synchronized(child))
    if not isinstance(module, _BatchNorm) or isinstance(module, SynchronizedBatchNorm):
        return module
    twin = SynchronizedBatchNorm(module.num_features, module.eps, module.momentum, module.affine)
    twin.track_running_stats = module.track_running_stats
    twin._parameters, twin._buffers = module._parameters, module._buffers
    twin.training = module.training
    return twin
