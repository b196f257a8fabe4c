"""Neurons descending a regularizer on the sphere: the computation behind thesis Figures 5.1, D.1 and D.2.

Each step is plain gradient descent on the directions, which are put back on the sphere after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .._core.checks import check_choice, check_count, check_positive
from ..functional import energy, unit

LONGEST = 0.04
REGULARIZERS = ("orthonormal", "mhe", "half_space_mhe")


@dataclass(frozen=True)
class Trajectory:
    """Directions after each step, ``(steps + 1, neurons, dim)``, and the value that fell, ``(steps + 1,)``."""

    regularizer: str
    points: Tensor
    values: Tensor


def start(neurons: int, dim: int, seed: int) -> Tensor:
    """Random directions, float64; the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    shape = check_count("neurons", neurons, minimum=2), check_count("dim", dim, minimum=2)
    drawn = torch.randn(shape, generator=generator, device="cpu")
    return unit(drawn.double())


def descend(
    regularizer: str,
    begin: Tensor,
    *,
    steps: int = 300,
    lr: float = 0.5,
    s: float = 2.0,
    weights: Tensor | None = None,
) -> Trajectory:
    """Gradient descent from ``begin`` (neurons, dim) on the sphere.

    ``"orthonormal"`` is ‖ŴᵀŴ − I‖²_F/(2N), the columns of Ŵ being the directions; ``"mhe"`` the sum Σ_{i≠j}
    ‖β_iŵ_i − β_jŵ_j‖^(−s)/(2N) (thesis 5.1, D.10), ``"half_space_mhe"`` the same of {ŵ, −ŵ}. No neuron moves by
    more than ``LONGEST`` radians a step, so that close pairs at the start are not thrown across the sphere, and a
    step is halved until the value falls by half of what its slope promises: it never rises, and nothing zigzags.
    """
    check_choice("regularizer", regularizer, REGULARIZERS)
    check_count("steps", steps)
    check_positive("lr", lr)
    if weights is not None and regularizer == "orthonormal":
        raise ValueError("weights belong to the energies (thesis D.10): the orthonormal penalty has none")
    points = unit(begin.detach().double())
    path, values = [points], [_value(regularizer, points, s, weights)]
    for _ in range(steps):
        points, value = _step(regularizer, points, values[-1], lr, s, weights)
        path.append(points)
        values.append(value)
    return Trajectory(regularizer, torch.stack(path), torch.stack(values))


def _step(
    regularizer: str, points: Tensor, value: Tensor, lr: float, s: float, weights: Tensor | None
) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        free = points.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(_value(regularizer, free, s, weights), free)
    gradient = gradient - points * (points * gradient).sum(1, keepdim=True)  # along the sphere
    lr = min(lr, LONGEST / max(float(gradient.norm(dim=1).max()), 1e-300))
    slope = gradient.square().sum()
    for _ in range(30):
        moved = unit(points - lr * gradient)
        found = _value(regularizer, moved, s, weights)
        if bool(found <= value - 0.5 * lr * slope):
            return moved, found
        lr = lr / 2
    return points, value


def _value(regularizer: str, points: Tensor, s: float, weights: Tensor | None) -> Tensor:
    count = len(points)
    if regularizer == "orthonormal":
        directions = unit(points)
        gap = directions @ directions.T - torch.eye(count, dtype=points.dtype)
        return gap.square().sum() / (2 * count)
    half = regularizer == "half_space_mhe"
    return energy(points, s, half_space=half, weights=weights, reduction="sum") / (2 * count)
