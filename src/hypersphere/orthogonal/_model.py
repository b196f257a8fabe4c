"""What one asks of a model that was attached: its matrices, its penalty, its task."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .._core.errors import check_count, check_positive
from .._core.modes import without_autocast
from ._rotation import Rotation, iter_rotations

__all__ = ["asks_host", "attached", "matrices", "penalty", "set_task"]


def matrices(model: nn.Module) -> dict[str, Tensor]:
    """R of every attached weight by its name, (d, d), of the active task; part of the autograd graph."""
    return {name: rotation.active.dense() for name, _, _, rotation in attached(model)}


def asks_host(model: nn.Module) -> bool:
    """Whether a forward pass needs answers from the device (the matrix exponential does): no CUDA graph then."""
    return any(getattr(rotation.active.method, "method", "") == "exponential" for *_, rotation in iter_rotations(model))


def penalty(model: nn.Module, beta: float = 1.0) -> Tensor:
    """β Σ ‖RᵀR − I‖²_F over the layers attached with ``method="relaxed"`` (thesis 7.7); add it to the loss."""
    check_positive("beta", beta, zero=True)
    terms = []
    for _, _, _, rotation in attached(model):
        if rotation.active.method.penalized:
            blocks = rotation.active
            for (_, count), r in zip(blocks.layout, blocks.matrices(), strict=True):
                with without_autocast(r.device):
                    gap = r.mT @ r - torch.eye(r.shape[-1], dtype=r.dtype, device=r.device)
                    terms.append(gap.square().sum() * (count // len(r)))  # a shared block counts as often as it occurs
    if not terms:
        raise ValueError("the model has no relaxed matrix: attach with method='relaxed' first")
    return beta * torch.stack([term.to(terms[0].device) for term in terms]).sum()


def set_task(model: nn.Module, task: int) -> nn.Module:
    """Let every attached layer use the R of ``task`` (0 to tasks − 1, see ``attach(tasks=...)``)."""
    check_count("task", task, minimum=0)
    found = attached(model)
    for name, _, _, rotation in found:
        if task >= len(rotation.tasks):
            raise ValueError(f"task={task}: {name} was attached with tasks={len(rotation.tasks)}")
    for _, _, _, rotation in found:
        rotation.task = task
    return model


def attached(model: nn.Module) -> list[tuple[str, nn.Module, str, Rotation]]:
    """Every attached weight; an error if there is none."""
    found = list(iter_rotations(model))
    if not found:
        raise ValueError("the model has no orthogonal parametrization: call hs.orthogonal.attach(model) first")
    return found
