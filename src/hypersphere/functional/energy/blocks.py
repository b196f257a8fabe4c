"""The energy of many neurons without an N × N tensor: value and gradient in one sweep over tiles.

With E = Σ_{i≠j} φ(c_ij) over the cosines c_ij = ŵ_i·ŵ_j, ∂E/∂ŵ_i = 2 Σ_j φ'(c_ij) ŵ_j. Only tiles on
and above the diagonal are visited: one product gives their cosines and two more carry φ' to both
sides, 1.5·N²·d multiply-adds where the full matrix and its backward take 3·N²·d.

The sweep is a separate operator, opaque to compilers. Both its outputs, the energy and the
gradient, are differentiable; the second derivative recomputes: for a cotangent v of the gradient,

    (Hv)_i = 2 Σ_j φ''(c_ij)·(v_i·ŵ_j + ŵ_i·v_j)·ŵ_j + φ'(c_ij)·v_j.

On a GPU the sweep in float32 is that of ``kernels.energy``, whose gradient is right along the sphere; where a second
derivative is asked for, the tiles here are taken. Function transforms and forward mode, which pass registered
operators by, have their rules in ``transforms``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ... import kernels
from ..._core.modes import is_plain_eager, is_transformed
from ...kernels.launch import on
from .duplicates import distinct, duplicates, may_look
from .kernel import FUSED_POWER, Kernel, derivatives, pair_energy
from .tile_forms import ClosedForm, closed_form, is_clear

_FUSED_DIM = 32
"""In fewer dimensions close pairs abound, which the fused sweep takes one by one: the tiles here are faster."""


def sweep(unit: Tensor, beta: Tensor | None, kernel: Kernel, block: int, raw: Tensor) -> Tensor:
    """Σ_{i≠j} φ(c_ij) of each of the (B, N, d) sets of unit vectors, shape (B,); ``raw`` is what was normalized."""
    if is_transformed(unit):
        from .transforms import transformed_sweep

        return transformed_sweep(unit, beta, kernel, block)
    differentiated = unit.requires_grad and torch.is_grad_enabled()
    return sweep_op(unit, beta, *kernel, block, differentiated, True, raw.detach())[0]


def is_fused(points: Tensor) -> bool:
    """Whether the kernels take these unit vectors, in eager mode."""
    return is_plain_eager(points) and _fits(points)


def class_sweep(points: Tensor, classes: Tensor, kernel: Kernel, raw: Tensor) -> Tensor:
    """Σ_i Σ_{j≠y_i} φ(ŵ_{y_i}·ŵ_j) over the classes y of a batch, −1 for none, where :func:`is_fused` says so."""
    return _ClassSweep.apply(points, classes, kernel, raw.detach())


def _fits(points: Tensor) -> bool:
    return points.shape[-1] >= _FUSED_DIM and points.dtype == torch.float32 and kernels.usable(points, "energy")


class _ClassSweep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor, classes: Tensor, kernel: Kernel, raw: Tensor) -> Tensor:
        chosen = classes.clamp(min=0)
        with on(points.device):
            total, rows, columns = kernels.energy.cross_energy(
                points.index_select(0, chosen), classes, points, kernels.energy.Pairing(*kernel),
                ctx.needs_input_grad[0], raw.index_select(0, chosen), raw,
            )  # fmt: skip
        if ctx.needs_input_grad[0]:
            ctx.save_for_backward(points, classes, columns.index_add_(0, chosen, rows))
            ctx.kernel = kernel
        return total.to(points.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        points, classes, gradient = ctx.saved_tensors
        if torch.is_grad_enabled():  # a second derivative will be asked for: differentiate the definition
            with torch.enable_grad():
                total = class_definition(points, classes, ctx.kernel)
                return torch.autograd.grad(total, points, grad, create_graph=True)[0], None, None, None
        return grad * gradient, None, None, None


def class_definition(points: Tensor, classes: Tensor, kernel: Kernel) -> Tensor:
    """:func:`class_sweep` by plain operations."""
    chosen = classes.clamp(min=0)
    own = torch.arange(len(points), device=points.device) == chosen[:, None]
    rows = points.index_select(0, chosen)
    cosines = distinct((rows @ points.mT).masked_fill(own, 0), rows, points, kernel)
    return pair_energy(cosines, kernel).masked_fill(own | (classes < 0)[:, None], 0).sum()


# Defined by hand: the decorator of torch.library imports a compiler at the first call.
_LIBRARY = torch.library.Library("hypersphere", "FRAGMENT")
_SETTINGS = "float s, bool angular, bool half_space, float floor, int block"
_LIBRARY.define(
    f"energy_sweep(Tensor unit, Tensor? beta, {_SETTINGS}, bool grad, bool fused, Tensor? raw) -> (Tensor, Tensor)"
)
_LIBRARY.define(f"energy_hessian_product(Tensor unit, Tensor v, Tensor? beta, {_SETTINGS}) -> Tensor")
sweep_op = torch.ops.hypersphere.energy_sweep.default
hessian_op = torch.ops.hypersphere.energy_hessian_product.default


def _do_sweep(unit: Tensor, beta: Tensor | None, *settings: Any) -> tuple[Tensor, Tensor]:
    *numbers, block, grad, fused, raw = settings
    kernel = Kernel(*numbers)
    values, gradient = unit.new_zeros(unit.shape[0]), unit.new_zeros(unit.shape if grad else (0,))
    for index, points in enumerate(unit):
        weights = None if beta is None else beta[index]
        if fused and _fits(points) and (weights is None or kernel.s <= FUSED_POWER):
            with on(points.device):
                total, slopes = kernels.energy.sweep_energy(
                    points, weights, kernels.energy.Pairing(*kernel), grad, points if raw is None else raw[index]
                )
            values[index] = total
            if slopes is not None:
                gradient[index] = slopes
            continue
        into = gradient[index] if grad else None
        values[index] = _sweep_one(points.contiguous(), weights, kernel, block, into)
    return values, gradient


_LIBRARY.impl("energy_sweep", _do_sweep, "CompositeExplicitAutograd")


@torch.library.register_fake("hypersphere::energy_sweep", lib=_LIBRARY)
def _(unit: Tensor, beta: Tensor | None, *settings: Any) -> tuple[Tensor, Tensor]:
    *_, grad, _fused, _raw = settings
    return unit.new_empty(unit.shape[0]), unit.new_empty(unit.shape if grad else (0,))


def _sweep_one(points: Tensor, beta: Tensor | None, kernel: Kernel, block: int, gradient: Tensor | None) -> Tensor:
    total = torch.zeros((), dtype=torch.float64, device=_accumulator(points.device))
    fast = closed_form(kernel) if beta is None and may_look(points.device) else None
    tile = points.new_empty(2, min(block, len(points)) ** 2)
    for rows, columns, diagonal in _tiles(len(points), block):
        left, right = points[rows], points[columns]
        x, spare = (flat[: len(left) * len(right)].view(len(left), len(right)) for flat in tile)
        value, slope = _tile(left, right, _pair_weights(beta, rows, columns), kernel, fast, diagonal, x, spare)
        total += value if diagonal else 2 * value
        if gradient is None:
            continue
        gradient[rows].addmm_(slope, right, alpha=2)
        if not diagonal:
            gradient[columns].addmm_(slope.t(), left, alpha=2)
    return total


def _tile(
    left: Tensor,
    right: Tensor,
    pair: tuple[Tensor | None, Tensor | None],
    kernel: Kernel,
    fast: ClosedForm | None,
    diagonal: bool,
    x: Tensor,
    spare: Tensor,
) -> tuple[Tensor, Tensor]:
    """Σφ over one tile, and φ'."""
    torch.mm(left, right.t(), out=x)
    if diagonal:
        x.fill_diagonal_(0)
    if fast is not None and is_clear(x, kernel):
        at_zero = derivatives(x.new_zeros(()), kernel)
        value, slope = fast(x, spare, kernel.s)
        return (value - len(x) * at_zero[0], slope.fill_diagonal_(0)) if diagonal else (value, slope)
    same = duplicates(x, left, right, kernel)
    energies, slope, _ = derivatives(x if same is None else torch.where(same, x.sign(), x), kernel, *pair)
    if same is not None:
        slope.masked_fill_(same, 0)
    if diagonal:
        energies.fill_diagonal_(0)
        slope.fill_diagonal_(0)
    return energies.sum(), slope


# Derivatives of the sweep ---------------------------------------------------------------------------


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    unit, beta, *settings = inputs
    *ctx.settings, _, ctx.fused, _ = settings
    ctx.save_for_backward(unit, beta, output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad_values: Tensor | None, grad_gradient: Tensor | None) -> tuple[Tensor | None, ...]:
    unit, beta, gradient = ctx.saved_tensors
    total: Tensor | None = None
    if ctx.fused and torch.is_grad_enabled():  # a second derivative will be asked for
        gradient = sweep_op(unit, beta, *ctx.settings, True, False, None)[1]
    if grad_values is not None:
        total = grad_values[:, None, None] * gradient
    if grad_gradient is not None:
        curved = hessian_op(unit, grad_gradient.contiguous(), beta, *ctx.settings)
        total = curved if total is None else total + curved
    return total, *[None] * 9


torch.library.register_autograd("hypersphere::energy_sweep", _backward, setup_context=_setup, lib=_LIBRARY)


@torch.library.register_vmap("hypersphere::energy_sweep", lib=_LIBRARY)
def _(
    info: Any, in_dims: tuple[int | None, ...], unit: Tensor, beta: Tensor | None, *settings: Any
) -> tuple[tuple[Tensor, Tensor], tuple[int, int | None]]:
    size = (info.batch_size, -1)
    values, gradient = sweep_op(*merged((unit, beta), in_dims, info.batch_size), *settings[:-1], None)
    if not gradient.numel():
        return (values.unflatten(0, size), gradient), (0, None)
    return (values.unflatten(0, size), gradient.unflatten(0, size)), (0, 0)


def merged(tensors: Sequence[Tensor | None], dims: Sequence[int | None], size: int) -> list[Tensor | None]:
    """The batch that is mapped over joins the batch of sets."""
    found: list[Tensor | None] = []
    for tensor, dim in zip(tensors, dims, strict=False):
        if tensor is not None:
            tensor = (tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)).flatten(0, 1)
        found.append(tensor)
    return found


def _do_hessian_product(unit: Tensor, v: Tensor, beta: Tensor | None, *settings: Any) -> Tensor:
    *numbers, block = settings
    kernel, result = Kernel(*numbers), torch.zeros_like(v)
    for index, (points, tangents) in enumerate(zip(unit, v, strict=True)):
        weights = None if beta is None else beta[index]
        for rows in _blocks(len(points), block):
            for columns in _blocks(len(points), block):
                pair = _pair_weights(weights, rows, columns)
                cosines = points[rows] @ points[columns].t()
                if rows == columns:
                    cosines.fill_diagonal_(0)
                _, slope, curvature = derivatives(cosines, kernel, *pair, second=True)
                same = duplicates(cosines, points[rows], points[columns], kernel)
                change = tangents[rows] @ points[columns].t() + points[rows] @ tangents[columns].t()
                mixed = change if curvature is None else change * curvature
                if same is not None:
                    mixed, slope = mixed.masked_fill(same, 0), slope.masked_fill(same, 0)
                if rows == columns:
                    mixed.fill_diagonal_(0)
                    slope.fill_diagonal_(0)
                result[index, rows] += 2 * (mixed @ points[columns] + slope @ tangents[columns])
    return result


_LIBRARY.impl("energy_hessian_product", _do_hessian_product, "CompositeExplicitAutograd")


@torch.library.register_fake("hypersphere::energy_hessian_product", lib=_LIBRARY)
def _(unit: Tensor, v: Tensor, *settings: Any) -> Tensor:
    return torch.empty_like(v)


def _tiles(count: int, block: int) -> Iterator[tuple[slice, slice, bool]]:
    """Row and column slices of the tiles on and above the diagonal."""
    slices = list(_blocks(count, block))
    for index, rows in enumerate(slices):
        for columns in slices[index:]:
            yield rows, columns, rows == columns


def _blocks(count: int, block: int) -> Iterator[slice]:
    for start in range(0, count, block):
        yield slice(start, min(start + block, count))


def _pair_weights(beta: Tensor | None, rows: slice, columns: slice) -> tuple[Tensor | None, Tensor | None]:
    """a = β_i β_j and b = (|β_i| − |β_j|)² of a tile."""
    if beta is None:
        return None, None
    left, right = beta[rows, None], beta[None, columns]
    return left * right, (left.abs() - right.abs()) ** 2


def _accumulator(device: torch.device) -> torch.device:
    return torch.device("cpu") if device.type == "mps" else device
