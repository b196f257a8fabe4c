"""The energy of few neurons from the whole matrix of their cosines, and what half space adds to a sum over pairs."""

from __future__ import annotations

import torch
from torch import Tensor

from .duplicates import distinct
from .kernel import Kernel, opposite, pair_energy

DENSE_PAIRS = 2**20
"""Up to this many pairs (N·N, times the sets of a batch) the matrix of cosines is kept whole."""


def dense(points: Tensor, beta: Tensor | None, kernel: Kernel) -> Tensor:
    """Σ_{i≠j} φ(c_ij) of each set of unit vectors (..., N, d), with a matrix of all cosines."""
    itself = torch.eye(points.shape[-2], dtype=torch.bool, device=points.device)
    cosines = distinct((points @ points.mT).masked_fill(itself, 0), points, points, kernel)
    if beta is None:
        energies = pair_energy(cosines, kernel)
    else:
        left, right = beta[..., :, None], beta[..., None, :]
        energies = pair_energy(cosines, kernel, left * right, (left.abs() - right.abs()) ** 2)
    return energies.masked_fill(itself, 0).sum((-2, -1))


def with_opposites(total: Tensor, points: Tensor, beta: Tensor | None, kernel: Kernel) -> Tensor:
    """The sum over the ordered pairs of {ŵ, −ŵ} in half space, from that of φ over the pairs of neurons."""
    if not kernel.half_space:
        return total
    squares = torch.ones_like(points[..., 0]) if beta is None else beta * beta
    return 2 * total + 2 * opposite(kernel, squares).sum(-1)


def pairs_of(count: int, half_space: bool) -> int:
    """The number of ordered pairs of so many neurons, in half space with their opposites."""
    count = 2 * count if half_space else count
    return count * (count - 1)
