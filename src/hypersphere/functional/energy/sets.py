"""The energies of several sets of neurons, of any sizes, in one call: on a GPU few launches for a whole model.

Value and gradient in closed form: with φ'_ij = dφ/dc at c_ij,

    dE/dw_i = 2·(Σ_j φ'_ij ŵ_j − ŵ_i Σ_j φ'_ij c_ij)/‖w_i‖.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ... import kernels
from ..._core.modes import is_plain_eager, without_autocast
from ..._core.sphere import unit as directions
from ..._core.sphere import upcast
from ...kernels.launch import enabled, usable
from .energies import DENSE_PAIRS, energy
from .kernel import Kernel, derivatives


def set_energies(
    sets: Sequence[Tensor], s: float = 2.0, distance: str = "euclidean", half_space: Sequence[bool] | None = None
) -> list[Tensor]:
    """The mean energy of every set of every tensor, as :func:`energy` gives it.

    On a GPU all sets are computed together, in a few launches; elsewhere one tensor after the other.

    Args:
        sets: Tensors of neurons (..., N, d), each with its own sizes.
        s: Power of the distance.
        distance: ``"euclidean"`` takes ‖ŵ_i − ŵ_j‖ as the distance of two neurons, ``"angular"`` the angle between them
            (thesis 5.5).
        half_space: Of each tensor, whether its energy is that of {ŵ, −ŵ}; None: of none.

    Returns:
        One tensor of shape (...) for each of ``sets``.
    """
    halves = [False] * len(sets) if half_space is None else list(half_space)
    if not sets or not _together(sets):
        return [energy(w, s, distance, half) for w, half in zip(sets, halves, strict=True)]
    values = _joint_energies(sets, halves, s, distance)
    parts = values.split([math.prod(w.shape[:-2]) for w in sets])
    return [part.reshape(w.shape[:-2]) for part, w in zip(parts, sets, strict=True)]


def weighted_energy(
    sets: Sequence[Tensor], factors: Sequence[float], s: float, distance: str, half_space: Sequence[bool]
) -> Tensor | None:
    """Σ factor · mean energy over all sets where they are computed together (see :func:`set_energies`), else None.

    Args:
        sets: Tensors of neurons (..., N, d), each with its own sizes.
        factors: One for each tensor, of each of its sets.
        s: Power of the distance.
        distance: ``"euclidean"`` takes ‖ŵ_i − ŵ_j‖ as the distance of two neurons, ``"angular"`` the angle between them
            (thesis 5.5).
        half_space: Of each tensor, whether its energy is that of {ŵ, −ŵ}.
    """
    if not sets or not _together(sets):
        return None
    each: list[float] = []
    for w, factor in zip(sets, factors, strict=True):
        each += [factor] * math.prod(w.shape[:-2])
    values = _joint_energies(sets, half_space, s, distance)
    return values @ _constants(tuple(each), values.device)


def _joint_energies(sets: Sequence[Tensor], halves: Sequence[bool], s: float, distance: str) -> Tensor:
    sizes: list[int] = []
    for w, half in zip(sets, halves, strict=True):
        sizes += [w.shape[-2], w.shape[-1], int(half)] * math.prod(w.shape[:-2])
    with without_autocast(sets[0].device):
        flat = torch.cat([upcast(w).reshape(-1) for w in sets])
        floor = Kernel.build(float(s), distance, False, None, flat.dtype).floor
        values: Tensor = _energies(flat, sizes, float(s), distance == "angular", floor)[0]
    return values


def _constants(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    """Numbers on the device: the same tensor each time, since a graph that is recorded cannot copy from the host."""
    if torch.compiler.is_compiling():
        return torch.tensor(numbers, device=device)
    return _kept_constants(numbers, device)


@lru_cache(maxsize=64)
def _kept_constants(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(numbers).to(device)


def _together(sets: Sequence[Tensor]) -> bool:
    """Whether one call serves: small sets in single precision on one GPU."""
    first = sets[0]
    if not torch.compiler.is_compiling() and not (is_plain_eager(*sets) and usable(first, "energy")):
        return False
    if torch.compiler.is_compiling() and not (first.device.type == "cuda" and enabled("energy")):
        return False
    return all(
        w.device == first.device
        and w.dtype != torch.float64
        and w.shape[-2] >= 2
        and w.shape[-2] ** 2 <= DENSE_PAIRS
        and w.numel() > 0
        for w in sets
    )


_LIBRARY = torch.library.Library("hypersphere", "FRAGMENT")
_SETTINGS = "int[] sizes, float s, bool angular, float floor"
_LIBRARY.define(f"set_energies(Tensor flat, {_SETTINGS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)")
_LIBRARY.define(
    "set_gradients(Tensor unit, Tensor inverse, Tensor slopes, Tensor along, Tensor incoming, int[] sizes) -> Tensor"
)
_energies = torch.ops.hypersphere.set_energies.default
_gradients = torch.ops.hypersphere.set_gradients.default


def _do_energies(flat: Tensor, sizes: list[int], s: float, angular: bool, floor: float) -> tuple[Tensor, ...]:
    table, scales, shifts = _tables(tuple(sizes), s, angular, flat.device)
    if usable(flat, "energy"):
        sums, *rest = kernels.sets.set_energies(flat, table, sizes, s, angular, floor)
    else:
        sums, *rest = _plain_energies(flat, sizes, s, angular, floor)
    return torch.addcmul(shifts, sums, scales), *rest


def _do_gradients(
    unit: Tensor, inverse: Tensor, slopes: Tensor, along: Tensor, incoming: Tensor, sizes: list[int]
) -> Tensor:
    table, scales, _ = _tables(tuple(sizes), None, False, unit.device)
    incoming = incoming.contiguous()
    if usable(unit, "energy"):
        return kernels.sets.set_gradients(unit, inverse, slopes, along, table, scales, incoming, sizes)
    return _plain_gradients(unit, inverse, slopes, along, 2 * incoming * scales, sizes)


_LIBRARY.impl("set_energies", _do_energies, "CompositeExplicitAutograd")
_LIBRARY.impl("set_gradients", _do_gradients, "CompositeExplicitAutograd")


@torch.library.register_fake("hypersphere::set_energies", lib=_LIBRARY)
def _(flat: Tensor, sizes: list[int], s: float, angular: bool, floor: float) -> tuple[Tensor, ...]:
    counts = sizes[::3]
    rows, tall = sum(counts), -(-max(counts) // 64)
    return (
        flat.new_empty(len(counts)),
        torch.empty_like(flat),
        flat.new_empty(rows),
        flat.new_empty(sum(count * count for count in counts)),
        flat.new_empty(rows, tall),
    )


@torch.library.register_fake("hypersphere::set_gradients", lib=_LIBRARY)
def _(unit: Tensor, inverse: Tensor, slopes: Tensor, along: Tensor, incoming: Tensor, sizes: list[int]) -> Tensor:
    return torch.empty_like(unit)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    flat, ctx.sizes, *ctx.settings = inputs
    ctx.save_for_backward(flat, *output[1:])
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, incoming: Tensor | None, *_: Tensor | None) -> tuple[Tensor | None, ...]:
    flat, *saved = ctx.saved_tensors
    gradient: Tensor | None = None
    if incoming is not None and torch.is_grad_enabled():  # a second derivative will be asked for
        with torch.enable_grad():
            values = torch.stack(_by_definition(flat, ctx.sizes, *ctx.settings))
            (gradient,) = torch.autograd.grad(values, flat, incoming, create_graph=True)
    elif incoming is not None:
        gradient = _gradients(*saved, incoming, ctx.sizes)
    return gradient, None, None, None, None


torch.library.register_autograd("hypersphere::set_energies", _backward, setup_context=_setup, lib=_LIBRARY)


@lru_cache(maxsize=64)
def _tables(
    sizes: tuple[int, ...], s: float | None, angular: bool, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Where each set lies, and what makes a mean over pairs of its sum: scale·sum + shift."""
    rows, scales, shifts = [], [], []
    start = first = square = padded = 0
    for count, dim, half in zip(sizes[::3], sizes[1::3], sizes[2::3], strict=True):
        length = -(-dim // 32) * 32  # rows of halves, as kernels.sets has them
        rows.append((start, count, dim, first, square, half, padded, length))
        start, first, square = start + count * dim, first + count, square + count * count
        padded += count * length
        pairs = 2 * count * (2 * count - 1) if half else count * (count - 1)
        scales.append((2 if half else 1) / pairs)
        shifts.append(2 * count * _opposite(s, angular) / pairs if half and s is not None else 0.0)
    return (
        torch.tensor(rows, dtype=torch.int64).to(device),
        torch.tensor(scales, dtype=torch.float32).to(device),
        torch.tensor(shifts, dtype=torch.float32).to(device),
    )


def _opposite(s: float, angular: bool) -> float:
    """The energy of a neuron and its own virtual one."""
    far = math.pi if angular else 2.0
    return -math.log(far) if s == 0 else far**-s


# The same in plain operations, for devices without kernels -------------------------------------------


def _pieces(flat: Tensor, sizes: list[int]) -> list[Tensor]:
    shapes = list(zip(sizes[::3], sizes[1::3], strict=True))
    parts = flat.split([count * dim for count, dim in shapes])
    return [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]


def _by_definition(flat: Tensor, sizes: list[int], s: float, angular: bool, floor: float) -> list[Tensor]:
    distance = "angular" if angular else "euclidean"
    sets = zip(_pieces(flat, sizes), sizes[2::3], strict=True)
    return [energy(w, s, distance, bool(half), floor=floor) for w, half in sets]


def _plain_energies(flat: Tensor, sizes: list[int], s: float, angular: bool, floor: float) -> tuple[Tensor, ...]:
    tall = -(-max(sizes[::3]) // 64)
    sums, units, inverses, slopes, alongs = [], [], [], [], []
    for w, half in zip(_pieces(flat, sizes), sizes[2::3], strict=True):
        points = directions(w)
        length = (w * points).sum(1)
        cosines = (points @ points.T).fill_diagonal_(0)
        value, slope, _ = derivatives(cosines, Kernel(s, angular, bool(half), floor))
        slope.fill_diagonal_(0)
        sums.append(value.fill_diagonal_(0).sum())
        units.append(points.reshape(-1))
        inverses.append(torch.where(length == 0, 0.0, 1 / length))
        slopes.append(slope.reshape(-1))
        along = flat.new_zeros(len(w), tall)
        along[:, 0] = (slope * cosines).sum(1)
        alongs.append(along)
    return torch.stack(sums), torch.cat(units), torch.cat(inverses), torch.cat(slopes), torch.cat(alongs)


def _plain_gradients(
    unit: Tensor, inverse: Tensor, slopes: Tensor, along: Tensor, factors: Tensor, sizes: list[int]
) -> Tensor:
    result, row, square = [], 0, 0
    for points, factor in zip(_pieces(unit, sizes), factors, strict=True):
        count = len(points)
        rows = slice(row, row + count)
        slope = slopes[square : square + count * count].view(count, count)
        gradient = slope @ points - points * along[rows].sum(1, keepdim=True)
        result.append((gradient * inverse[rows, None] * factor).reshape(-1))
        row, square = row + count, square + count * count
    return torch.cat(result)
