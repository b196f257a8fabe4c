"""Random matrices that preserve angles (thesis 6.3.3, 6.5), scaled so that E‖Pw‖² = ‖w‖²."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ._draws import Draws


def gaussian(rows: int, columns: int, draws: Draws) -> Tensor:
    """Entries N(0, 1/rows)."""
    return draws.normal(rows, columns) / rows**0.5


def hadamard(rows: int, columns: int, draws: Draws) -> Tensor:
    """Subsampled randomized Hadamard transform: random rows of H·D, D random signs, zero-padded input."""
    size = 1 << max(columns - 1, 1).bit_length()
    chosen = draws.permutation(size)[:rows]
    signs = 1 - 2 * draws.integers(2, columns)
    overlap = chosen[:, None] & torch.arange(columns, device=chosen.device)  # H_ij = (−1)^(bits shared by i and j)
    for shift in (32, 16, 8, 4, 2, 1):
        overlap = overlap ^ (overlap >> shift)
    return (1 - 2 * (overlap & 1)) * signs / rows**0.5


def count_sketch(rows: int, columns: int, draws: Draws) -> Tensor:
    """One random sign in a random row of each column."""
    row = draws.integers(rows, 1, columns)
    signs = (1 - 2 * draws.integers(2, 1, columns)).float()
    return torch.zeros(rows, columns, device=row.device).scatter(0, row, signs)


MATRICES: dict[str, Callable[[int, int, Draws], Tensor]] = {
    "gaussian": gaussian,
    "hadamard": hadamard,
    "count_sketch": count_sketch,
}
