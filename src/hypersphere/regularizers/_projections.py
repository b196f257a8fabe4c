"""Random matrices that preserve angles (thesis 6.3.3, 6.5), scaled so that E‖Pw‖² = ‖w‖²."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["MATRICES", "count_sketch", "gaussian", "hadamard"]


def gaussian(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Entries N(0, 1/rows)."""
    return torch.randn(rows, columns, generator=generator) / rows**0.5


def hadamard(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Subsampled randomized Hadamard transform: random rows of H·D, D random signs, zero-padded input."""
    size = 1 << max(columns - 1, 1).bit_length()
    chosen = torch.randperm(size, generator=generator)[:rows]
    signs = 1 - 2 * torch.randint(2, (columns,), generator=generator)
    overlap = chosen[:, None] & torch.arange(columns)  # H_ij = (−1)^(bits shared by i and j)
    for shift in (32, 16, 8, 4, 2, 1):
        overlap = overlap ^ (overlap >> shift)
    return (1 - 2 * (overlap & 1)) * signs / rows**0.5


def count_sketch(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """One random sign in a random row of each column."""
    row = torch.randint(rows, (1, columns), generator=generator)
    signs = (1 - 2 * torch.randint(2, (1, columns), generator=generator)).float()
    return torch.zeros(rows, columns).scatter(0, row, signs)


MATRICES: dict[str, Callable[[int, int, torch.Generator], Tensor]] = {
    "gaussian": gaussian,
    "hadamard": hadamard,
    "count_sketch": count_sketch,
}
