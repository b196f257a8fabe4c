"""Functions on an attached model: its matrices, its penalty, its task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

from .._core.checks import check_count, check_positive
from .._core.modes import without_autocast
from ..functional.orthogonalize import side_by_side
from ._blocks import block_matrices
from ._rotation import Rotation, iter_rotations, turn_together


def matrices(model: nn.Module) -> dict[str, Tensor]:
    """Return R of every attached weight for the active task, as part of the autograd graph.

    Args:
        model: a network whose weights :func:`attach` has parametrized.

    Returns:
        Matrices (d, d) by weight name.

    Example:
        >>> model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)))
        >>> {name: tuple(r.shape) for name, r in hs.orthogonal.matrices(model).items()}
        {'0.weight': (4, 4)}
    """
    return {name: rotation.active.dense() for name, _, _, rotation in attached(model)}


def asks_host(model: nn.Module) -> bool:
    """Say whether a forward pass waits for the device, as the matrix exponential does; no CUDA graph can record it.

    Args:
        model: a network whose weights :func:`attach` has parametrized.

    Returns:
        True if a forward pass waits for the device.

    Example:
        >>> model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), "exponential")
        >>> hs.orthogonal.asks_host(model)
        True
    """
    return any(getattr(rotation.active.method, "method", "") == "exponential" for *_, rotation in iter_rotations(model))


def penalty(model: nn.Module, beta: float = 1.0) -> Tensor:
    """β Σ ‖RᵀR − I‖²_F over the layers attached with ``method="relaxed"`` (thesis 7.7); add it to the loss.

    Args:
        model: a network whose weights :func:`attach` has parametrized.
        beta: β ≥ 0, how strongly R is kept orthogonal.

    Returns:
        A scalar to add to the loss, 0 if every R is orthogonal.

    Raises:
        ValueError: If the model has no matrix of ``method="relaxed"``, or ``beta`` is negative.

    Example:
        >>> model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), "relaxed", init="identity")
        >>> hs.orthogonal.penalty(model).item()
        0.0
    """
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


@contextmanager
def prepared(model: nn.Module) -> Iterator[None]:
    """Compute all attached weights on entry; reads inside the context use these results.

    Put it around a compiled forward pass: the maps then run as they do in eager mode, all of them in a few launches and
    each starting from its last step, and the compiled code takes the weights as inputs. A model without attached
    weights is left as it is.

    Args:
        model: The model, or a module that holds it. Its parameters must not change inside.

    Returns:
        A context manager for the forward pass.

    Example:
        >>> model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
        >>> with hs.orthogonal.prepared(model):
        ...     model(torch.ones(1, 4)).sum().backward()
    """
    found = [(module, name, rotation) for _, module, name, rotation in iter_rotations(model)]
    for _, _, rotation in found:
        rotation.active.join_peers()
    try:
        weights = [module.parametrizations[name].original for module, name, _ in found]  # type: ignore[index, union-attr]
        turn_together([(rotation, v) for (_, _, rotation), v in zip(found, weights, strict=True)])
        with side_by_side(len(found), found[0][2].active.raw[0].device if found else torch.device("cpu")) as beside:
            for index, ((_, _, rotation), v) in enumerate(zip(found, weights, strict=True)):
                if rotation.ready is not None:
                    continue
                with nullcontext() if rotation.active.is_joint else beside(index):
                    rotation.ready = rotation(v)
        yield
    finally:
        for _, _, rotation in found:
            rotation.ready = None


def restart(model: nn.Module) -> nn.Module:
    """Compute every R from the parameters alone at the next step, and forget failures.

    On a GPU the Cayley matrices start from those of the last step, which changes R by rounding errors. If a resumed run
    must agree bit by bit with an uninterrupted one, call this in both at the step of the checkpoint.

    Args:
        model: a network whose weights :func:`attach` has parametrized.

    Returns:
        ``model`` itself; the next step computes every R from scratch.

    Example:
        >>> model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)))
        >>> hs.orthogonal.restart(model) is model
        True
    """
    found = block_matrices(model)
    for blocks in found:
        blocks.forget()
    for peers in dict.fromkeys(blocks.peers for blocks in found):  # layers share them
        peers.restart()
    return model


def unconverged(model: nn.Module) -> bool:
    """Say whether a step since the last :func:`restart` had a Cayley matrix that could not be computed on the GPU.

    Such a matrix is NaN, and so is the loss of its step. It happens only if a parameter grows by a factor of thousands
    between two steps. The function waits for the device.

    Args:
        model: a network whose weights :func:`attach` has parametrized.

    Returns:
        True if a Cayley matrix could not be computed since the last :func:`restart`.

    Example:
        >>> model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)))
        >>> hs.orthogonal.unconverged(model)
        False
    """
    return any(blocks.peers.failed() for blocks in block_matrices(model))


def rotation_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Return the parameters that R is computed from, e.g. to give them another learning rate.

    Args:
        model: a network whose weights :func:`attach` has parametrized.

    Returns:
        The parameters of all attached weights and tasks.

    Example:
        >>> model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)))
        >>> [tuple(parameter.shape) for parameter in hs.orthogonal.rotation_parameters(model)]
        [(1, 4, 4)]
    """
    return [parameter for *_, rotation in iter_rotations(model) for parameter in rotation.tasks.parameters()]


def set_task(model: nn.Module, task: int) -> nn.Module:
    """Make every attached layer use the R of one task (thesis F.8).

    The ``state_dict`` holds the matrices of all tasks but not the choice of the task: set it again after loading.

    Args:
        model: a network attached with ``attach(tasks=...)``.
        task: number of the task, 0 to tasks − 1.

    Returns:
        ``model`` itself, which computes with the R of that task.

    Raises:
        ValueError: If nothing is attached, or it was attached with fewer tasks.

    Example:
        >>> model = hs.orthogonal.attach(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), tasks=2)
        >>> hs.orthogonal.set_task(model, 1) is model
        True
    """
    check_count("task", task, minimum=0)
    found = attached(model)
    for name, _, _, rotation in found:
        if task >= len(rotation.tasks):
            raise ValueError(f"task={task}: {name} was attached with tasks={len(rotation.tasks)}")
    for _, _, _, rotation in found:
        rotation.task = task
    return model


def attached(model: nn.Module) -> list[tuple[str, nn.Module, str, Rotation]]:
    """Every attached weight; raises ValueError if there is none."""
    found = list(iter_rotations(model))
    if not found:
        raise ValueError("the model has no orthogonal parametrization: call hs.orthogonal.attach(model) first")
    return found
