"""Neurons of one direction: they count in the energy, but have no direction to part along.

Along the sphere the gradient of φ(ŵ_i·ŵ_j) is φ'·(ŵ_j − c·ŵ_i), of length |φ'|·sin θ: 0 for ŵ_i = ±ŵ_j, however steep φ
is. Computed from products it would be φ' (10^11 in float32 for s = 2) times the rounding error of both vectors. Each is
off by up to eps, since its entries are divided twice, by the largest of them and by the norm. So directions that differ
by no more than 2·eps are one, up to sign:

    1 − |c| = ½‖ŵ_i ∓ ŵ_j‖² ≤ 2·eps².

A cosine is far too coarse for that, as 1 − c carries its error of eps: pairs that are near by their cosine are looked
at again, by their difference. A GPU does not wait for the host to list them: there all pairs are compared, in few
dimensions and float64. ``kernels/device/pair.py`` has the same rule.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..._core.modes import is_plain_eager
from .kernel import Kernel

_AT_ONCE = 2**22
"""Entries of differences that are held at a time."""

_FEW = 16
"""Dimensions that two different directions do not agree in: a difference shrinks a thousandfold once in 10^40 times."""


def distinct(cosines: Tensor, left: Tensor, right: Tensor, kernel: Kernel) -> Tensor:
    """The cosines of the unit vectors (..., N, d) and (..., M, d); constants 1 and −1 where two directions are one."""
    same = duplicates(cosines, left, right, kernel)
    return cosines if same is None else torch.where(same, cosines.sign(), cosines)


def duplicates(cosines: Tensor, left: Tensor, right: Tensor, kernel: Kernel) -> Tensor | None:
    """Which of the (..., N, M) pairs have one direction; None if it is known that none has."""
    eps = torch.finfo(cosines.dtype).eps
    limit = 1 - max(16 * eps, min(kernel.floor, 0.01))
    if not is_plain_eager(cosines, left, right):
        return _found(cosines.detach(), left.detach(), right.detach(), limit)
    cosines, left, right = cosines.detach(), left.detach(), right.detach()
    if not _is_compared_whole(cosines) and may_look(cosines.device):
        if cosines.numel() == 0:
            return None
        low, high = cosines.aminmax()
        if not bool((high > limit) | (low < -limit)):
            return None
    return _find(cosines, left, right, limit)


def may_look(device: torch.device) -> bool:
    """Whether a value may be read back: while a CUDA graph is recorded it may not."""
    return device.type == "cpu" or (device.type == "cuda" and not torch.cuda.is_current_stream_capturing())


def _find(cosines: Tensor, left: Tensor, right: Tensor, limit: float) -> Tensor:
    least = 2 * torch.finfo(cosines.dtype).eps
    same = cosines.abs() > limit
    if _is_compared_whole(cosines):
        return same & (_squares_in_few(left, right) <= least * least)
    if not may_look(cosines.device):
        either = [torch.cdist(left, one, compute_mode="donot_use_mm_for_euclid_dist") for one in (right, -right)]
        return same & (torch.minimum(*either) <= least)
    batch = cosines.shape[:-2]
    rows, columns = (x.expand(*batch, *x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (left, right))
    flat, signs = (x.reshape(-1, *x.shape[-2:]) for x in (same, cosines.sign()))
    for pairs in flat.nonzero().split(max(_AT_ONCE // left.shape[-1], 1)):
        part, i, j = pairs.unbind(1)
        gap = torch.addcmul(rows[part, i], columns[part, j], signs[part, i, j, None], value=-1)
        flat[part, i, j] = torch.linalg.vector_norm(gap, dim=1) <= least
    return flat.view_as(same)


def _is_compared_whole(cosines: Tensor) -> bool:
    return cosines.is_cuda and cosines.dtype == torch.float32


def _squares_in_few(left: Tensor, right: Tensor) -> Tensor:
    """About ‖ŵ_i ∓ ŵ_j‖², the smaller of both, to 1e-15: of the vectors multiplied by a fixed (d, few) matrix."""
    entry = torch.arange(1, left.shape[-1] + 1, dtype=torch.float64, device=left.device)[:, None]
    column = torch.arange(1, _FEW + 1, dtype=torch.float64, device=left.device)
    mixing = torch.cos(entry * (7 + column).sqrt() * entry.sqrt()) * (2 / _FEW) ** 0.5
    rows, columns = left.double() @ mixing, right.double() @ mixing
    lengths = rows.square().sum(-1)[..., :, None] + columns.square().sum(-1)[..., None, :]
    return lengths - 2 * (rows @ columns.mT).abs()


# Fixed in shape outside, so that compilers and vmap take it as it is.
_LIBRARY = torch.library.Library("hypersphere", "FRAGMENT")
_LIBRARY.define("energy_duplicates(Tensor cosines, Tensor left, Tensor right, float limit) -> Tensor")
_LIBRARY.impl("energy_duplicates", _find, "CompositeExplicitAutograd")
_found = torch.ops.hypersphere.energy_duplicates.default


@torch.library.register_fake("hypersphere::energy_duplicates", lib=_LIBRARY)
def _(cosines: Tensor, left: Tensor, right: Tensor, limit: float) -> Tensor:
    return torch.empty_like(cosines, dtype=torch.bool)


@torch.library.register_vmap("hypersphere::energy_duplicates", lib=_LIBRARY)
def _(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
    *tensors, limit = inputs
    pairs = zip(tensors, in_dims, strict=False)
    whole = [x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0) for x, dim in pairs]
    return _found(*whole, limit), 0
