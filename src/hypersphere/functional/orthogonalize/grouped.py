"""Many square matrices in one flat buffer, and their products in one launch each (on a GPU, by Triton)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...kernels import device as kernels
from ...kernels.launch import device_runs, enabled, multiprocessors

TILE = {"BM": 128, "BN": 128, "BK": 32}
WARPS, STAGES = 8, 3
_PAD = 32


def usable(x: Tensor, family: str = "orthogonal") -> bool:
    """Whether the kernels can do ``x``: float32 on a GPU that runs them. They add nothing atomically."""
    return x.is_cuda and x.dtype == torch.float32 and enabled(family) and device_runs(x.device.index)


def programs(x: Tensor) -> int:
    """As many programs as run at once."""
    return multiprocessors(x.device.index) if x.is_cuda else 4


@dataclass(frozen=True, eq=False)
class Layout:
    """Where matrices of ``sizes`` lie, padded to multiples of 32, largest first in the order of work."""

    sizes: tuple[int, ...]
    padded: tuple[int, ...]
    places: tuple[int, ...]
    total: int
    rows: int
    table: Tensor
    tiles: Tensor
    upper_tiles: Tensor
    stripes: Tensor
    true_sizes: Tensor

    @property
    def has_padding(self) -> bool:
        return self.sizes != self.padded

    def views(self, flat: Tensor, shapes: Sequence[torch.Size]) -> list[Tensor]:
        """The matrices inside a flat buffer, as tensors of ``shapes`` (count, d, d), in order."""
        return [block[..., : shape[-1], : shape[-1]] for block, shape in self._blocks(flat, shapes)]

    def put(self, flat: Tensor, shapes: Sequence[torch.Size], index: int, matrices: Tensor, one: float = 0.0) -> None:
        """Make stack ``index`` of a flat buffer these matrices, and its padding ``one``·I, whatever it was (NaN)."""
        block, shape = self._blocks(flat, shapes)[index]
        if self.has_padding:
            block.zero_().diagonal(dim1=-2, dim2=-1).fill_(one)
        block[..., : shape[-1], : shape[-1]].copy_(matrices)

    def _blocks(self, flat: Tensor, shapes: Sequence[torch.Size]) -> list[tuple[Tensor, torch.Size]]:
        """The matrices inside a flat buffer with their padding, and the shapes that they have without it."""
        out, p = [], 0
        for shape in shapes:
            count, size, place = shape[:-2].numel(), self.padded[p], self.places[p]
            out.append((flat[place : place + count * size * size].view(*shape[:-2], size, size), shape))
            p += count
        return out

    def empty(self, like: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """A flat buffer whose padding is zero."""
        return (torch.zeros if self.has_padding else torch.empty)(self.total, dtype=dtype, device=like.device)

    def whole(self, matrices: Sequence[Tensor]) -> Tensor:
        """The flat buffer that stacks of matrices are views of, if they are all of its matrices; else a new one."""
        flat, place = matrices[0]._base, 0
        if flat is None or flat.shape != (self.total,):
            return self.packed(matrices, matrices[0].dtype)
        for x in matrices:
            if x._base is not flat or x.storage_offset() != place:
                return self.packed(matrices, x.dtype)
            place += x.shape[:-2].numel() * (-(-x.shape[-1] // _PAD) * _PAD) ** 2
        return flat if place == self.total else self.packed(matrices, matrices[0].dtype)

    def packed(self, matrices: Sequence[Tensor], dtype: torch.dtype = torch.float32) -> Tensor:
        """Stacks of matrices as a flat buffer."""
        flat = self.empty(matrices[0], dtype)
        torch._foreach_copy_(self.views(flat, [x.shape for x in matrices]), list(matrices))
        return flat


def layout_of(shapes: Sequence[torch.Size], device: torch.device) -> Layout:
    """The layout of stacks of square matrices (..., d, d)."""
    sizes = tuple(shape[-1] for shape in shapes for _ in range(shape[:-2].numel()))
    return _layout(sizes, device)


@functools.lru_cache(maxsize=64)
def _layout(sizes: tuple[int, ...], device: torch.device) -> Layout:
    padded = tuple(-(-d // _PAD) * _PAD for d in sizes)
    places, rows = [0], [0]
    for size in padded:
        places.append(places[-1] + size * size)
        rows.append(rows[-1] + size)
    order = sorted(range(len(sizes)), key=lambda p: -padded[p])
    block = TILE["BM"]
    counts = [-(-size // block) for size in padded]
    whole = [(p, i, j) for p in order for i in range(counts[p]) for j in range(counts[p])]
    table = [
        (size, place, row, count * count) for size, place, row, count in zip(padded, places, rows, counts, strict=False)
    ]

    def integers(values: object, dtype: torch.dtype = torch.int32) -> Tensor:
        return torch.tensor(values, dtype=dtype).to(device)

    return Layout(
        sizes,
        padded,
        tuple(places[:-1]),
        places[-1],
        rows[-1],
        integers(table, torch.int64),
        integers(whole),
        integers([(p, i, j) for p, i, j in whole if j >= i]),
        integers([(p, i, 0) for p in order for i in range(padded[p] // _PAD)]),
        integers(sizes),
    )


def product(
    layout: Layout,
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    gamma: float = 0.0,
    precise: bool = True,
    transposed_addend: bool = False,
    mirror: int = 0,
    store: str = "plain",
    upper: bool = False,
    begin: int = 0,
    end: int = 0,
    gate: Tensor | None = None,
    gates: int = 1,
    sigma: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    tiles: Tensor | None = None,
    out: Tensor | None = None,
    out_t: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """α·A·Bᵀ + β·C + γ·I of every matrix: the result and its transpose, as far as ``store`` asks for them.

    ``mirror`` 1 or −1 says that the result is symmetric or skew: half of it is computed. ``upper``: it is upper
    triangular. ``begin`` and ``end`` say where the factors are 0, ``gate`` has a factor for each matrix (``gates`` 2:
    not for its transpose), ``sigma`` numbers by which to divide (see the kernel). Operands of half precision are
    multiplied as they are. ``tiles`` computes these alone, into ``out`` and ``out_t``, which may be ``a`` where a
    tile's rows are all it reads of it.
    """
    wanted = {"plain": 1, "transposed": 2, "both": 3}[store]
    make = torch.zeros if upper else torch.empty  # all else is written, padding included
    if out is None:
        out = make(layout.total, dtype=dtype, device=a.device) if wanted & 1 else a
    if out_t is None:
        out_t = make(layout.total, dtype=dtype, device=a.device) if wanted & 2 else a
    if tiles is None:
        tiles = layout.upper_tiles if mirror or upper else layout.tiles
    addend = 0 if c is None else 2 if transposed_addend else 1
    with torch.cuda.device_of(a):
        kernels.products.product_kernel[(len(tiles),)](
            a, b, a if c is None else c, out, out_t, a if gate is None else gate,
            a if sigma is None else sigma, tiles, layout.table, alpha, beta, gamma,
            **TILE, PRECISE=precise, ADDEND=addend, STORE=wanted, MIRROR=mirror,
            BEGIN=begin, END=end, GATED=0 if gate is None else gates, DIVIDED=sigma is not None,
            num_warps=WARPS, num_stages=STAGES,
        )  # fmt: skip
    return out, out_t
