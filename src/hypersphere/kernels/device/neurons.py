"""v = s(n)·g(r(n)·y)·m + b of a tile of neurons, and its gradients, inside a kernel."""

# mypy: ignore-errors
# Triton's language: its values have no Python types.

from __future__ import annotations

import triton
import triton.language as tl

from .magnitude import h_ratio, h_slopes, h_value
from .math import angular, angular_k_slope, curvature

_TINY = tl.constexpr(1.1754944e-38)


@triton.jit
def _per_neuron(vector, j, inside):
    return tl.load(vector + j, mask=inside, other=1.0).to(tl.float32)[None, :]


@triton.jit
def _argument(n, length, j, inside):
    """The argument of h: n, or n·‖w‖."""
    if length is None:
        return n[:, None]
    else:
        return n[:, None] * _per_neuron(length, j, inside)


@triton.jit
def _over(n):
    zero = n < _TINY
    return tl.where(zero, 0.0, 1.0 / tl.where(zero, 1.0, n))[:, None]


@triton.jit
def _curve(k, fixed, j, inside):
    """k of these neurons, and the sigmoid's two constants computed from it."""
    if k is None:
        half, top = curvature(tl.full((1, 1), fixed, tl.float32))
        return fixed, half, top
    else:
        own = _per_neuron(k, j, inside)
        half, top = curvature(own)
        return own, half, top


@triton.jit
def neurons(
    y, n, reach, j, inside, mult, bias, k, length, fixed_k, alpha, beta, shift,
    G: tl.constexpr, H: tl.constexpr, RATIO: tl.constexpr,
):  # fmt: skip
    """v of the neurons j."""
    argument = _argument(n, length, j, inside)
    _, half, top = _curve(k, fixed_k, j, inside)
    if RATIO:
        r, _, _ = h_ratio(argument, reach, alpha, beta, H)
        v, _ = angular(y * (r * shift), half, top, G, False)
    else:
        s = h_value(argument, reach, alpha, beta, H)
        g, _ = angular(y * (_over(n) * shift), half, top, G, False)
        v = s * g
    if mult is not None:
        v *= _per_neuron(mult, j, inside)
    if bias is not None:
        v += _per_neuron(bias, j, inside)
    return v


@triton.jit
def neurons_backward(
    dv, y, n, reach, at, j, inside, alive, mult, k, length, dmult, dk, dlength, fixed_k, alpha, beta, shift,
    G: tl.constexpr, H: tl.constexpr, RATIO: tl.constexpr,
):  # fmt: skip
    """dy, and each row's share of dn and of the radius; the shares of the neurons' parameters are stored at ``at``."""
    argument = _argument(n, length, j, inside)
    own, half, top = _curve(k, fixed_k, j, inside)
    mask = alive[:, None] & inside[None, :]
    along = dv
    if mult is not None:
        along = dv * _per_neuron(mult, j, inside)
    if RATIO:
        r, in_n, in_rho = h_ratio(argument, reach, alpha, beta, H)
        c = y * (r * shift)
        g, slope = angular(c, half, top, G, False)
        s = 1.0
        dc = along * slope
        dy = dc * (r * shift)
        in_n *= dc * y * shift
        in_rho *= dc * y * shift
    else:
        over = _over(n)
        s = h_value(argument, reach, alpha, beta, H)
        in_n, in_rho = h_slopes(argument, reach, alpha, beta, H)
        c = y * (over * shift)
        g, slope = angular(c, half, top, G, False)
        dc = along * s * slope
        dy = dc * (over * shift)
        in_n *= along * g
        in_rho *= along * g
    dn = in_n
    if length is not None:
        dn = in_n * _per_neuron(length, j, inside)
        if dlength is not None:
            tl.store(dlength + at, in_n * n[:, None], mask=mask)
    if not RATIO:
        dn -= dc * c * over
    if dmult is not None:
        tl.store(dmult + at, dv * s * g, mask=mask)
    if dk is not None:
        tl.store(dk + at, along * s * angular_k_slope(g, c, own, half, top), mask=mask)
    return dy, tl.sum(dn, 1), tl.sum(in_rho, 1)
