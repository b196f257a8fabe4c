"""The operator behind the energies of several sets of neurons: few launches for all of them on a GPU.

Value and gradient in closed form: with φ'_ij = dφ/dc at c_ij,

    dE/dw_i = 2·(Σ_j φ'_ij ŵ_j − ŵ_i Σ_j φ'_ij c_ij)/‖w_i‖.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ... import kernels
from ..._core.modes import differentiated, is_plain_eager, needs_definition, without_autocast
from ..._core.sphere import unit, upcast
from ...kernels.launch import device_runs, enabled, on, usable
from .dense import DENSE_PAIRS, dense, pairs_of, with_opposites
from .kernel import FUSED_POWER, Kernel


def joint_energies(
    sets: Sequence[Tensor],
    halves: Sequence[bool],
    s: float,
    distance: str,
    factors: Sequence[float] | None = None,
    weights: Sequence[Tensor | None] | None = None,
    floor: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Σ factor·energy, and the mean energy of every set, the sets of each tensor one after the other.

    Args:
        sets: Tensors of neurons (..., N, d) for which :func:`together` holds.
        halves: Of each tensor, whether its energy is that of {ŵ, −ŵ}.
        s: Power of the distance.
        distance: ``"euclidean"`` or ``"angular"``.
        factors: One for each tensor, of each of its sets; None: no sum is wanted.
        weights: Of each tensor, None or the lengths β (..., N) of its neurons, constants.
        floor: Smallest squared distance that counts; None: the default.
    """
    sizes: list[int] = []
    each: list[float] = []
    for w, half, factor in zip(sets, halves, factors or [0.0] * len(sets), strict=True):
        number = math.prod(w.shape[:-2])
        sizes += [w.shape[-2], w.shape[-1], int(half)] * number
        each += [factor] * number
    beta = None
    if weights is not None and any(one is not None for one in weights):
        shapes = (w.shape[:-1] for w in sets)
        pairs = zip(weights, shapes, strict=True)
        lengths = [(sets[0].new_ones(()) if one is None else one.detach()).expand(shape) for one, shape in pairs]
        beta = torch.cat([one.to(sets[0].device, torch.float32).reshape(-1) for one in lengths])
    with without_autocast(sets[0].device):
        sources = [upcast(w).contiguous() for w in sets]
        lowest = Kernel.build(float(s), distance, False, floor, sources[0].dtype).floor
        total, values, *_ = _energies(sources, sizes, each, beta, float(s), distance == "angular", lowest)
    return total, values


def together(sets: Sequence[Tensor], s: float, weights: Sequence[Tensor | None] | None = None) -> bool:
    """Whether one call serves: small sets in single precision on one GPU, and no large powers of weights."""
    if s > FUSED_POWER and weights is not None and any(one is not None for one in weights):
        return False
    first = sets[0]
    if not torch.compiler.is_compiling() and not (is_plain_eager(*sets) and usable(first, "energy")):
        return False
    if torch.compiler.is_compiling() and not (first.is_cuda and enabled("energy") and device_runs(first.device.index)):
        return False
    return all(
        w.device == first.device
        and w.dtype != torch.float64
        and w.shape[-2] >= 2
        and w.shape[-2] ** 2 <= DENSE_PAIRS
        and 0 < w.numel() < 2**31  # the kernels count the entries of a set in 32 bits
        for w in sets
    )


_LIBRARY = torch.library.Library("hypersphere", "FRAGMENT")
_LIBRARY.define(
    "set_energies(Tensor[] sets, int[] sizes, float[] factors, Tensor? beta, float s, bool angular, float floor)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
_LIBRARY.define(
    "set_gradients(Tensor unit, Tensor inverse, Tensor slopes, Tensor along, Tensor steep, Tensor marks,"
    " Tensor? d_total, Tensor? d_values, int[] sizes, float[] factors) -> Tensor"
)
_energies = torch.ops.hypersphere.set_energies.default
_gradients = torch.ops.hypersphere.set_gradients.default


def _do_energies(
    sets: list[Tensor],
    sizes: list[int],
    factors: list[float],
    beta: Tensor | None,
    s: float,
    angular: bool,
    floor: float,
) -> tuple[Tensor, ...]:
    parts = tuple(math.prod(w.shape[:-2]) for w in sets)
    table, numbers = _tables(tuple(sizes), tuple(factors), parts, sets[0].device)
    with on(sets[0].device):
        return kernels.sets.set_energies(sets, table, numbers, beta, sizes, parts, s, angular, floor)


def _do_gradients(
    unit: Tensor,
    inverse: Tensor,
    slopes: Tensor,
    along: Tensor,
    steep: Tensor,
    marks: Tensor,
    d_total: Tensor | None,
    d_values: Tensor | None,
    sizes: list[int],
    factors: list[float],
) -> Tensor:
    table, numbers = _tables(tuple(sizes), tuple(factors), None, unit.device)
    d_values = None if d_values is None else d_values.contiguous()
    with on(unit.device):
        saved = unit, inverse, slopes, along, steep, marks
        return kernels.sets.set_gradients(*saved, table, numbers, d_total, d_values, sizes)


_LIBRARY.impl("set_energies", _do_energies, "CompositeExplicitAutograd")
_LIBRARY.impl("set_gradients", _do_gradients, "CompositeExplicitAutograd")


@torch.library.register_fake("hypersphere::set_energies", lib=_LIBRARY)
def _(sets: list[Tensor], sizes: list[int], *_: Any) -> tuple[Tensor, ...]:
    counts, new = sizes[::3], sets[0].new_empty
    rows, tall = sum(counts), -(-max(counts) // 64)
    entries = sum(count * _padded(dim) for count, dim in zip(counts, sizes[1::3], strict=True))
    square = sum(count * _padded(count, 16) for count in counts)
    marks = new(len(counts), tall * tall, dtype=torch.int32)
    return new(()), new(len(counts)), new(entries), new(rows), new(square), new(rows, tall), new(square), marks


@torch.library.register_fake("hypersphere::set_gradients", lib=_LIBRARY)
def _(unit: Tensor, *rest: Any) -> Tensor:
    sizes = rest[-2]
    return unit.new_empty(sum(count * dim for count, dim in zip(sizes[::3], sizes[1::3], strict=True)))


def _padded(length: int, step: int = 32) -> int:
    """As ``kernels.sets.padded``, which needs Triton."""
    return -(-length // step) * step


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    sets, ctx.sizes, ctx.factors, beta, *ctx.settings = inputs
    ctx.save_for_backward(*output[2:], beta, *sets)
    ctx.mark_non_differentiable(*output[2:])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, d_total: Tensor | None, d_values: Tensor | None, *_: Tensor | None) -> tuple[Any, ...]:
    *saved, beta = ctx.saved_tensors[:7]
    sets = list(ctx.saved_tensors[7:])
    found: list[Tensor | None] = [None] * len(sets)
    if d_total is None and d_values is None:
        pass
    elif needs_definition(d_total, d_values):

        def define(*sets: Tensor) -> tuple[Tensor, Tensor]:
            values = torch.stack(_by_definition(list(sets), ctx.sizes, beta, *ctx.settings))
            return values @ values.new_tensor(ctx.factors), values

        found = differentiated(define, sets, [w.requires_grad for w in sets], (d_total, d_values))
    else:
        flat = _gradients(*saved, d_total, d_values, ctx.sizes, ctx.factors)
        pieces = flat.split([w.numel() for w in sets])
        found = [piece.view(w.shape) for piece, w in zip(pieces, sets, strict=True)]
    return found, None, None, None, None, None, None


torch.library.register_autograd("hypersphere::set_energies", _backward, setup_context=_setup, lib=_LIBRARY)


@cache  # never given back: a CUDA graph may read them
def _tables(
    sizes: tuple[int, ...], factors: tuple[float, ...], parts: tuple[int, ...] | None, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Where each set lies (columns as in ``kernels/device/sets.py``); what makes a mean of its sum, and its factor.

    Kept on the device, since a graph that is recorded cannot copy from the host.
    """
    rows, scales = [], []
    start = first = square = padded = 0
    places = [(source, at) for source, number in enumerate(parts or ()) for at in range(number)]
    for index, (count, dim, half) in enumerate(zip(sizes[::3], sizes[1::3], sizes[2::3], strict=True)):
        length = _padded(dim)
        source, at = places[index] if places else (0, 0)
        rows.append((start, count, dim, first, square, half, padded, length, source, at * count * dim))
        start, first, square = start + count * dim, first + count, square + count * _padded(count, 16)
        padded += count * length
        scales.append(2 / (2 * count * (2 * count - 1)) if half else 1 / (count * (count - 1)))
    numbers = torch.tensor([scales, factors], dtype=torch.float32)
    return torch.tensor(rows, dtype=torch.int64).to(device), numbers.to(device)


def _by_definition(
    sets: list[Tensor], sizes: list[int], beta: Tensor | None, s: float, angular: bool, floor: float
) -> list[Tensor]:
    lengths = [None] * (len(sizes) // 3) if beta is None else beta.split(sizes[::3])
    pieces = [one for w in sets for one in w.reshape(-1, *w.shape[-2:])]
    found = []
    for w, half, own in zip(pieces, sizes[2::3], lengths, strict=True):
        points, kernel = unit(w), Kernel(s, angular, bool(half), floor)
        total = with_opposites(dense(points, own, kernel), points, own, kernel)
        found.append(total / pairs_of(len(w), bool(half)))
    return found
