"""One time step of a recurrent layer, forward or backward, as one kernel.

    forward:   y = ⟨w, h′⟩, n = ‖h′‖, v = s(n)·g(r(n)·y)·m + b, gates of (u, v), the new state h
    backward:  dh from dy of the next step, the gates' gradients, dy = dv·m·s·g′·r

A program owns some rows of the batch and some units of the state with all gates of these units. Row norms need whole
rows. In the forward pass a program reads them anyway for its product. In the backward pass each program stores its
share of dn/n, and the previous step adds the shares up. No program waits for another, and nothing is added atomically.

Rows: ``states`` and ``cells`` hold the initial state and all steps. ``origin`` is the first row of the steps, ``start``
that of the initial state. All other arrays hold only the steps, in the order of time.
"""

# mypy: ignore-errors
# Triton's language: its values have no Python types.

from __future__ import annotations

import triton
import triton.language as tl

from .math import tanh_exact
from .neurons import neurons, neurons_backward
from .norms import ZERO

MODES = {"RNN_TANH": 0, "RNN_RELU": 1, "GRU": 2, "LSTM": 3}
RNN_TANH = tl.constexpr(0)
RNN_RELU = tl.constexpr(1)
GRU = tl.constexpr(2)
LSTM = tl.constexpr(3)

_TINY = tl.constexpr(1.1754944e-38)


@triton.jit
def _mean_norm(
    squares, running, tracked, mean_length, before, start, size, size_before, momentum,
    TRAINING: tl.constexpr, PARTS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The mean norm of this step's rows in training, else the running mean; program 0 updates the running mean."""
    average = tl.load(running).to(tl.float32)
    if TRAINING:
        total = tl.zeros((BLOCK,), tl.float32)
        for first in range(0, size, BLOCK):
            rows = first + tl.arange(0, BLOCK)
            parts = tl.arange(0, WIDTH)
            source = tl.where(rows < size_before, before + rows, start + rows).to(tl.int64)
            mask = (rows < size)[:, None] & (parts < PARTS)[None, :]
            total += tl.sqrt(
                tl.sum(tl.load(squares + source[:, None] * PARTS + parts[None, :], mask=mask, other=0.0), 1)
            )
        mean = tl.sum(total, 0) / size
        if mean_length is not None:
            mean *= tl.load(mean_length)
        counts = (mean > 0.0) & (mean < float("inf"))
        mean = tl.where(counts, mean, average)
        if (tl.program_id(0) == 0) & (tl.program_id(1) == 0):
            seen = tl.load(tracked)
            tl.store(running, average + (mean - average) * tl.where(seen == 0, 1.0, momentum))
            tl.store(tracked, seen + counts.to(tl.int64))
        return mean
    else:
        return average


@triton.jit
def _logistic(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
def _tanh(x):
    value, _ = tanh_exact(x)
    return value


@triton.jit
def _rounded(x):
    """x adjusted so that tensor cores, which truncate float32 to ten bits, round it instead."""
    if x.dtype == tl.float32:
        return (x.to(tl.int32, bitcast=True) + 0x1000).to(tl.float32, bitcast=True)
    else:
        return x


@triton.jit
def _product(a, tile, mask, total, PRECISION: tl.constexpr):
    """``total`` + a·tile; "ieee" is float32 without tensor cores, the only product that the interpreter has."""
    b = tl.load(tile, mask=mask, other=0.0)
    if PRECISION == "ieee":
        return tl.dot(a.to(tl.float32), b.to(tl.float32), total, input_precision="ieee")
    else:
        return tl.dot(_rounded(a), _rounded(b), total, input_precision="tf32")


@triton.jit
def _load_gates(array, at, mask):
    return tl.load(array + at, mask=mask, other=0.0).to(tl.float32)


@triton.jit(do_not_specialize=["offset", "size", "before", "size_before", "step", "origin", "start"])
def recurrent_forward_kernel(
    pre, states, cells, weight, mult, bias, k, rho, length, y, norms, means, squares, running, tracked, mean_length,
    offset, size, before, size_before, step, origin, start,
    fixed_k, fixed_rho, alpha, beta, shift, momentum,
    UNITS: tl.constexpr, MODE: tl.constexpr, GATES: tl.constexpr, G: tl.constexpr, H: tl.constexpr,
    RATIO: tl.constexpr, RUNNING: tl.constexpr, TRAINING: tl.constexpr, PRECISION: tl.constexpr,
    PARTS: tl.constexpr, WIDTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """One step: ``size`` rows from ``offset`` on; their previous states are at ``before``, or in the initial state."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    alive = rows < size
    units = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = units < UNITS
    mask = alive[:, None] & inside[None, :]
    source = tl.where(rows < size_before, before + rows, start + rows).to(tl.int64)

    y0 = tl.zeros((BM, BN), tl.float32)
    y1, y2, y3 = y0, y0, y0
    total = tl.zeros((BM,), tl.float32)
    for first in range(0, UNITS, BK):
        depth = first + tl.arange(0, BK)
        deep = depth < UNITS
        h = tl.load(states + source[:, None] * UNITS + depth[None, :], mask=alive[:, None] & deep[None, :], other=0.0)
        wide = h.to(tl.float32)
        total += tl.sum(wide * wide, 1)
        tile = weight + units[None, :].to(tl.int64) * UNITS + depth[:, None]
        both = deep[:, None] & inside[None, :]
        y0 = _product(h, tile, both, y0, PRECISION)
        if GATES > 1:
            y1 = _product(h, tile + UNITS * UNITS, both, y1, PRECISION)
            y2 = _product(h, tile + 2 * UNITS * UNITS, both, y2, PRECISION)
        if GATES > 3:
            y3 = _product(h, tile + 3 * UNITS * UNITS, both, y3, PRECISION)
    n = tl.sqrt(tl.where(total < ZERO, 0.0, total))

    reach = fixed_rho
    if rho is not None:
        reach = tl.load(rho).to(tl.float32)
    if RUNNING:
        mean = _mean_norm(
            squares, running, tracked, mean_length, before, start, size, size_before, momentum,
            TRAINING, PARTS, WIDTH, 64,
        )  # fmt: skip
        reach = reach * mean
        if (tl.program_id(0) == 0) & (tl.program_id(1) == 0):
            tl.store(means + step, mean)

    row = (offset + rows).to(tl.int64)
    here = (origin + row)[:, None] * UNITS + units[None, :]
    at = row[:, None] * (GATES * UNITS) + units[None, :]
    v0 = neurons(y0, n, reach, units, inside, mult, bias, k, length, fixed_k, alpha, beta, shift, G, H, RATIO)
    u0 = _load_gates(pre, at, mask)
    if GATES > 1:
        j = units + UNITS
        v1 = neurons(y1, n, reach, j, inside, mult, bias, k, length, fixed_k, alpha, beta, shift, G, H, RATIO)
        u1 = _load_gates(pre, at + UNITS, mask)
        j = units + 2 * UNITS
        v2 = neurons(y2, n, reach, j, inside, mult, bias, k, length, fixed_k, alpha, beta, shift, G, H, RATIO)
        u2 = _load_gates(pre, at + 2 * UNITS, mask)
    if MODE == LSTM:
        j = units + 3 * UNITS
        v3 = neurons(y3, n, reach, j, inside, mult, bias, k, length, fixed_k, alpha, beta, shift, G, H, RATIO)
        u3 = _load_gates(pre, at + 3 * UNITS, mask)
        cell = _load_gates(cells, source[:, None] * UNITS + units[None, :], mask)
        cell = _logistic(u1 + v1) * cell + _logistic(u0 + v0) * _tanh(u2 + v2)
        tl.store(cells + here, cell, mask=mask)
        new = _logistic(u3 + v3) * _tanh(cell)
    elif MODE == GRU:
        old = _load_gates(states, source[:, None] * UNITS + units[None, :], mask)
        candidate = _tanh(u2 + _logistic(u0 + v0) * v2)
        new = candidate + _logistic(u1 + v1) * (old - candidate)
    elif MODE == RNN_TANH:
        new = _tanh(u0 + v0)
    else:
        new = tl.where(u0 + v0 < 0.0, 0.0, u0 + v0)
    rounded = new.to(states.dtype.element_ty)
    tl.store(states + here, rounded, mask=mask)
    if RUNNING and TRAINING:
        wide = tl.where(mask, rounded.to(tl.float32), 0.0)
        tl.store(squares + (origin + row) * PARTS + tl.program_id(1), tl.sum(wide * wide, 1), mask=alive)
    if y is not None:
        tl.store(y + at, y0.to(y.dtype.element_ty), mask=mask)
        if GATES > 1:
            tl.store(y + at + UNITS, y1.to(y.dtype.element_ty), mask=mask)
            tl.store(y + at + 2 * UNITS, y2.to(y.dtype.element_ty), mask=mask)
        if GATES > 3:
            tl.store(y + at + 3 * UNITS, y3.to(y.dtype.element_ty), mask=mask)
        if tl.program_id(1) == 0:
            tl.store(norms + row, n, mask=alive)


@triton.jit(
    do_not_specialize=["offset", "size", "after", "size_after", "before", "size_before", "step", "origin", "start"]
)
def recurrent_backward_kernel(
    pre, states, cells, weight, mult, bias, k, rho, length, y, norms, means,
    dout, dcells, dpre, dy, carry, shares, dn_gate, drho, dmult, dk, dlength,
    offset, size, after, size_after, before, size_before, step, origin, start,
    fixed_k, fixed_rho, alpha, beta, shift,
    UNITS: tl.constexpr, MODE: tl.constexpr, GATES: tl.constexpr, G: tl.constexpr, H: tl.constexpr,
    RATIO: tl.constexpr, RUNNING: tl.constexpr, PRECISION: tl.constexpr,
    PARTS: tl.constexpr, WIDTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """The gradients of one step; ``carry`` is what reaches the previous state past the product (h in a GRU, c)."""
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    alive = rows < size
    units = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = units < UNITS
    mask = alive[:, None] & inside[None, :]
    row = (offset + rows).to(tl.int64)
    here = (origin + row)[:, None] * UNITS + units[None, :]
    source = tl.where(rows < size_before, before + rows, start + rows).to(tl.int64)[:, None] * UNITS + units[None, :]
    at = row[:, None] * (GATES * UNITS) + units[None, :]

    # dh: from the output and from the next step
    reached = rows < size_after
    carries = reached[:, None] & inside[None, :]
    next_row = (after + rows).to(tl.int64)
    d0 = tl.zeros((BM, BN), tl.float32)
    d1, d2, d3 = d0, d0, d0
    end = tl.where(size_after > 0, UNITS, 0)
    for first in range(0, end, BK):
        depth = first + tl.arange(0, BK)
        deep = depth < UNITS
        left = dy + next_row[:, None] * (GATES * UNITS) + depth[None, :]
        tile = weight + depth[:, None].to(tl.int64) * UNITS + units[None, :]
        some = reached[:, None] & deep[None, :]
        both = deep[:, None] & inside[None, :]
        a = tl.load(left, mask=some, other=0.0)
        d0 = _product(a, tile, both, d0, PRECISION)
        if GATES > 1:
            a = tl.load(left + UNITS, mask=some, other=0.0)
            d1 = _product(a, tile + UNITS * UNITS, both, d1, PRECISION)
            a = tl.load(left + 2 * UNITS, mask=some, other=0.0)
            d2 = _product(a, tile + 2 * UNITS * UNITS, both, d2, PRECISION)
        if GATES > 3:
            a = tl.load(left + 3 * UNITS, mask=some, other=0.0)
            d3 = _product(a, tile + 3 * UNITS * UNITS, both, d3, PRECISION)
    parts = tl.arange(0, WIDTH)
    pieces = reached[:, None] & (parts < PARTS)[None, :]
    share = tl.sum(tl.load(shares + next_row[:, None] * PARTS + parts[None, :], mask=pieces, other=0.0), 1)
    h = _load_gates(states, here, mask)
    dh = _load_gates(dout, row[:, None] * UNITS + units[None, :], mask)
    dh += (d0 + d1) + (d2 + d3) + h * share[:, None]
    if GATES > 1:
        carried = carry + rows[:, None].to(tl.int64) * UNITS + units[None, :]

    # recompute the step from y
    n = tl.load(norms + row, mask=alive, other=0.0)
    reach = fixed_rho
    if rho is not None:
        reach = tl.load(rho).to(tl.float32)
    mean = 1.0
    if RUNNING:
        mean = tl.load(means + step)
        reach = reach * mean
    y0 = _load_gates(y, at, mask)
    v0 = neurons(y0, n, reach, units, inside, mult, bias, k, length, fixed_k, alpha, beta, shift, G, H, RATIO)
    u0 = _load_gates(pre, at, mask)
    if GATES > 1:
        j1 = units + UNITS
        j2 = units + 2 * UNITS
        y1 = _load_gates(y, at + UNITS, mask)
        v1 = neurons(y1, n, reach, j1, inside, mult, bias, k, length, fixed_k, alpha, beta, shift, G, H, RATIO)
        u1 = _load_gates(pre, at + UNITS, mask)
        y2 = _load_gates(y, at + 2 * UNITS, mask)
        v2 = neurons(y2, n, reach, j2, inside, mult, bias, k, length, fixed_k, alpha, beta, shift, G, H, RATIO)
        u2 = _load_gates(pre, at + 2 * UNITS, mask)
    if MODE == LSTM:
        j3 = units + 3 * UNITS
        y3 = _load_gates(y, at + 3 * UNITS, mask)
        v3 = neurons(y3, n, reach, j3, inside, mult, bias, k, length, fixed_k, alpha, beta, shift, G, H, RATIO)
        u3 = _load_gates(pre, at + 3 * UNITS, mask)
        i = _logistic(u0 + v0)
        f = _logistic(u1 + v1)
        new = _tanh(u2 + v2)
        o = _logistic(u3 + v3)
        bent = _tanh(_load_gates(cells, here, mask))
        dc = dh * o * (1.0 - bent * bent) + tl.load(carried, mask=carries, other=0.0)
        if dcells is not None:
            dc += _load_gates(dcells, row[:, None] * UNITS + units[None, :], mask)
        g0 = dc * new * i * (1.0 - i)
        g1 = dc * _load_gates(cells, source, mask) * f * (1.0 - f)
        g2 = dc * i * (1.0 - new * new)
        g3 = dh * bent * o * (1.0 - o)
        tl.store(carried, dc * f, mask=mask)
        tl.store(dpre + at + 3 * UNITS, g3.to(dpre.dtype.element_ty), mask=mask)
    elif MODE == GRU:
        dh += tl.load(carried, mask=carries, other=0.0)
        r = _logistic(u0 + v0)
        z = _logistic(u1 + v1)
        candidate = _tanh(u2 + r * v2)
        dc = dh * (1.0 - z) * (1.0 - candidate * candidate)
        g0 = dc * v2 * r * (1.0 - r)
        g1 = dh * (_load_gates(states, source, mask) - candidate) * z * (1.0 - z)
        g2 = dc
        tl.store(carried, dh * z, mask=mask)
    elif MODE == RNN_TANH:
        g0 = dh * (1.0 - h * h)
    else:
        g0 = tl.where(h > 0.0, dh, 0.0)
    tl.store(dpre + at, g0.to(dpre.dtype.element_ty), mask=mask)
    if GATES > 1:
        tl.store(dpre + at + UNITS, g1.to(dpre.dtype.element_ty), mask=mask)
        tl.store(dpre + at + 2 * UNITS, g2.to(dpre.dtype.element_ty), mask=mask)
    if MODE == GRU:
        g2 = dc * r
        if dn_gate is not None:
            tl.store(dn_gate + row[:, None] * UNITS + units[None, :], g2, mask=mask)

    # through the neurons
    dy0, dn, dr = neurons_backward(
        g0, y0, n, reach, at, units, inside, alive, mult, k, length, dmult, dk, dlength,
        fixed_k, alpha, beta, shift, G, H, RATIO,
    )  # fmt: skip
    tl.store(dy + at, dy0.to(dy.dtype.element_ty), mask=mask)
    if GATES > 1:
        dy1, dn1, dr1 = neurons_backward(
            g1, y1, n, reach, at + UNITS, j1, inside, alive, mult, k, length, dmult, dk, dlength,
            fixed_k, alpha, beta, shift, G, H, RATIO,
        )  # fmt: skip
        dy2, dn2, dr2 = neurons_backward(
            g2, y2, n, reach, at + 2 * UNITS, j2, inside, alive, mult, k, length, dmult, dk, dlength,
            fixed_k, alpha, beta, shift, G, H, RATIO,
        )  # fmt: skip
        tl.store(dy + at + UNITS, dy1.to(dy.dtype.element_ty), mask=mask)
        tl.store(dy + at + 2 * UNITS, dy2.to(dy.dtype.element_ty), mask=mask)
        dn += dn1 + dn2
        dr += dr1 + dr2
    if MODE == LSTM:
        dy3, dn3, dr3 = neurons_backward(
            g3, y3, n, reach, at + 3 * UNITS, j3, inside, alive, mult, k, length, dmult, dk, dlength,
            fixed_k, alpha, beta, shift, G, H, RATIO,
        )  # fmt: skip
        tl.store(dy + at + 3 * UNITS, dy3.to(dy.dtype.element_ty), mask=mask)
        dn += dn3
        dr += dr3
    zero = n < _TINY
    dn = tl.where(zero, 0.0, dn / tl.where(zero, 1.0, n))
    tl.store(shares + row * PARTS + tl.program_id(1), dn, mask=alive)
    if drho is not None:
        tl.store(drho + row * PARTS + tl.program_id(1), dr * mean, mask=alive)
