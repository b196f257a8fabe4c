"""A whole sequence through a recurrent layer, forward and backward: one kernel for each time step.

    forward:   u (inputs of all steps), start → all states
    backward:  gradients of the states → those of u, of the start and of everything the layer learns

The gradient of the weight is one product over all steps at the end. Kept for backward: u, the states and the products
⟨w, h⟩; gates are computed again. Nothing here depends on autograd.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import device
from .launch import on, written
from .layout import next_power
from .recurrent_launch import Launches, precision, tile_for
from .spec import ANGULAR, MAGNITUDES

_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}


class Settings(NamedTuple):
    """The settings of a layer, which are the same in every call.

    Attributes:
        mode: As in ``nn.RNNBase``.
        angular, k: The name of g, and its k if that is a number.
        magnitude, alpha, beta, rho: The name of h and its parameters; ``rho`` if it is a number.
        running, training, momentum: Whether the mean norm multiplies ρ, whether it is the batch's mean, and the
            momentum of its running average.
        shift: The factor that the weight has been divided by.
    """

    mode: str
    angular: str
    k: float
    magnitude: str
    alpha: float
    beta: float
    rho: float
    running: bool
    training: bool
    momentum: float
    shift: float


class Tensors(NamedTuple):
    """The tensors that a sequence is computed from.

    Attributes:
        pre: f(w, x) + b of the inputs of all steps, (rows, gates·units), steps in the order of time.
        hidden, cell: The start, (batch, units); ``cell`` is for an LSTM.
        weight: ŵ, or what :func:`~hypersphere.functional.operators.make_kernel` makes of it, (gates·units, units).
        mult, bias: The factor of h·g of each neuron, and the term added to the result.
        k, length: The k of each neuron if it is learned, and ‖w‖ if h depends on it.
        rho: The radius, if it is learned.
        running, tracked: The running mean of the norms, and the number of batches in it.
    """

    pre: Tensor
    hidden: Tensor
    cell: Tensor | None
    weight: Tensor
    mult: Tensor | None
    bias: Tensor | None
    k: Tensor | None
    length: Tensor | None
    rho: Tensor | None
    running: Tensor | None
    tracked: Tensor | None


class Kept(NamedTuple):
    """All states, with the start before or after them, and what backward needs of each step."""

    states: Tensor
    cells: Tensor | None
    y: Tensor | None
    norms: Tensor | None
    means: Tensor | None


class Gradients(NamedTuple):
    """The gradients of :class:`Tensors` that are needed."""

    pre: Tensor | None = None
    hidden: Tensor | None = None
    cell: Tensor | None = None
    weight: Tensor | None = None
    mult: Tensor | None = None
    bias: Tensor | None = None
    k: Tensor | None = None
    length: Tensor | None = None
    rho: Tensor | None = None


class Step(NamedTuple):
    """Where a step finds its rows, counted from the first row of the steps; rows beyond ``size_before`` start here."""

    time: int
    offset: int
    size: int
    before: int
    size_before: int


@lru_cache(maxsize=256)
def steps(sizes: tuple[int, ...], reverse: bool) -> tuple[Step, ...]:
    """The steps in the order in which they run; ``sizes`` are their numbers of rows in the order of time."""
    offsets = list(accumulate(sizes, initial=0))
    order = range(len(sizes))[:: -1 if reverse else 1]
    found, before, size_before = [], 0, 0
    for t in order:
        found.append(Step(t, offsets[t], sizes[t], before, min(size_before, sizes[t])))
        before, size_before = offsets[t], sizes[t]
    return tuple(found)


def forward(t: Tensors, f: Settings, sizes: tuple[int, ...], reverse: bool, keep: bool) -> Kept:
    """Return all states, and with ``keep`` what backward needs. The running mean of the norms is updated along the way.

    Args:
        t: The tensors, all contiguous and on one device.
        f: The layer.
        sizes: Number of rows of every step, longest sequences first (non-increasing).
        reverse: Whether time runs backwards.
        keep: Whether a backward pass follows.
    """
    (batch, units), total = t.hidden.shape, t.pre.shape[0]
    gates = _GATES[f.mode]
    how = precision(t.pre)
    tile = tile_for(batch, units, gates, t.pre.dtype, how)
    parts = -(-units // tile.units)
    averaging = f.running and f.training
    new, wide = t.pre.new_empty, torch.float32
    with on(t.pre.device):
        states = _with_start(t.hidden, total, reverse, t.pre.dtype)
        cells = None if t.cell is None else _with_start(t.cell, total, reverse, torch.float32)
        y = new((total, gates * units)) if keep else None
        norms = new(total, dtype=wide) if keep else None
        means = new(len(sizes), dtype=wide) if f.running else None
        squares = _squares(t.hidden, states, parts, total, reverse) if averaging else None
        mean_length = t.length.mean() if averaging and t.length is not None else None
        tail = (
            f.k, f.rho, f.alpha, f.beta, f.shift, f.momentum,
            units, device.recurrent.MODES[f.mode], gates, ANGULAR[f.angular], MAGNITUDES[f.magnitude],
            f.angular == "cosine", f.running, f.training, how,
            parts, next_power(parts), tile.rows, tile.units, tile.depth,
        )  # fmt: skip
        tensors = (
            t.pre, states, cells, t.weight, t.mult, t.bias, t.k, t.rho, t.length, y, norms, means, squares,
            t.running, t.tracked, mean_length,
        )  # fmt: skip
        launch = Launches(device.recurrent.recurrent_forward_kernel, tensors, tail, tile, parts)
        origin, start = (0, total) if reverse else (batch, 0)
        for time, offset, size, before, size_before in steps(sizes, reverse):
            launch(size, offset, size, origin + before, size_before, time, origin, start)
    if averaging:
        written(t.running, t.tracked)
    return Kept(states, cells, y, norms, means)


def backward(
    t: Tensors,
    f: Settings,
    sizes: tuple[int, ...],
    reverse: bool,
    kept: Kept,
    dout: Tensor,
    dcells: Tensor | None,
    need: Gradients | Sequence[bool],
) -> Gradients:
    """Return the gradients that ``need`` selects, in the order of :class:`Gradients`.

    Args:
        t, f, sizes, reverse, kept: The arguments and the result of forward.
        dout, dcells: Gradients of the states and cells of all steps.
        need: Whether each gradient is needed.
    """
    (batch, units), total = t.hidden.shape, t.pre.shape[0]
    gates = _GATES[f.mode]
    how = precision(t.pre)
    tile = tile_for(batch, units, gates, t.pre.dtype, how)
    parts = -(-units // tile.units)
    wants = Gradients(*need)

    def shares(wanted: Any, columns: int) -> Tensor | None:
        return t.pre.new_empty((total, columns), dtype=torch.float32) if wanted else None

    with on(t.pre.device):
        dpre, dy = torch.empty_like(t.pre), torch.empty_like(t.pre)
        carry = t.pre.new_empty((batch, units), dtype=torch.float32) if gates > 1 else None
        pieces = t.pre.new_empty((total, parts), dtype=torch.float32)
        new_gate = shares(wants.bias and f.mode == "GRU", units)
        drho = shares(wants.rho, parts)
        dmult, dk, dlength = (shares(wanted, gates * units) for wanted in (wants.mult, wants.k, wants.length))
        tail = (
            f.k, f.rho, f.alpha, f.beta, f.shift,
            units, device.recurrent.MODES[f.mode], gates, ANGULAR[f.angular], MAGNITUDES[f.magnitude],
            f.angular == "cosine", f.running, how,
            parts, next_power(parts), tile.rows, tile.units, tile.depth,
        )  # fmt: skip
        tensors = (
            t.pre, kept.states, kept.cells, t.weight, t.mult, t.bias, t.k, t.rho, t.length, kept.y, kept.norms,
            kept.means, dout, dcells, dpre, dy, carry, pieces, new_gate, drho, dmult, dk, dlength,
        )  # fmt: skip
        launch = Launches(device.recurrent.recurrent_backward_kernel, tensors, tail, tile, parts)
        origin, start = (0, total) if reverse else (batch, 0)
        plan, after, size_after = steps(sizes, reverse), 0, 0
        for time, offset, size, before, size_before in reversed(plan):
            launch(
                size, offset, size, after, min(size_after, size), origin + before, size_before, time, origin, start
            )  # fmt: skip
            after, size_after = offset, size
        bias = None
        if wants.bias:
            bias = dpre.sum(0, dtype=torch.float32)
            if new_gate is not None:
                bias[2 * units :] = new_gate.sum(0)
        return Gradients(
            dpre,
            _start_gradient(t, dy, pieces, carry if f.mode == "GRU" else None, plan) if wants.hidden else None,
            carry if wants.cell else None,
            _weight_gradient(dy, kept.states, plan, batch, reverse) if wants.weight else None,
            None if dmult is None else dmult.sum(0),
            bias,
            None if dk is None else dk.sum(0),
            None if dlength is None else dlength.sum(0),
            None if drho is None else drho.sum(),
        )


def _with_start(start: Tensor, total: int, reverse: bool, dtype: torch.dtype) -> Tensor:
    """Memory for all states in the order of time, with the start before them or, if time is reversed, after them."""
    batch = start.shape[0]
    states = start.new_empty((batch + total, start.shape[1]), dtype=dtype)
    (states[total:] if reverse else states[:batch]).copy_(start)
    return states


def _squares(hidden: Tensor, states: Tensor, parts: int, total: int, reverse: bool) -> Tensor:
    """Memory for ‖h‖² of every state, in parts; those of the start are filled in."""
    squares = states.new_empty((states.shape[0], parts), dtype=torch.float32)
    start = squares[total:] if reverse else squares[: hidden.shape[0]]
    start.zero_()
    start[:, 0] = hidden.to(states.dtype).float().square().sum(1)
    return squares


def _weight_gradient(dy: Tensor, states: Tensor, plan: tuple[Step, ...], batch: int, reverse: bool) -> Tensor:
    """Σ over all steps of dyᵀ·h′, with h′ the previous state, as one product."""
    total = dy.shape[0]
    if all(step.size == batch for step in plan):
        return dy.t() @ (states[batch:] if reverse else states[:total])
    origin, start = (0, total) if reverse else (batch, 0)
    previous = states.new_empty((total, states.shape[1]))
    for step in plan:
        first, last, known = step.offset, step.offset + step.size, step.size_before
        previous[first : first + known] = states[origin + step.before : origin + step.before + known]
        previous[first + known : last] = states[start + known : start + step.size]
    return dy.t() @ previous


def _start_gradient(t: Tensors, dy: Tensor, pieces: Tensor, direct: Tensor | None, plan: tuple[Step, ...]) -> Tensor:
    """dh of the start: through the first step of every row."""
    first = [(step.offset + step.size_before, step.offset + step.size) for step in plan if step.size > step.size_before]
    dy, pieces = (
        torch.cat([part[a:b] for a, b in first]) if len(first) > 1 else part[slice(*first[0])] for part in (dy, pieces)
    )
    dh = (dy @ t.weight).float() + t.hidden.float() * pieces.sum(1, keepdim=True)
    return dh if direct is None else dh + direct
