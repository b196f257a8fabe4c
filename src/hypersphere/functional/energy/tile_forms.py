"""Euclidean energies of a tile of cosines in closed form: Σφ and φ' in place, from c and with q = 2 − 2c."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .kernel import Kernel

ClosedForm = Callable[[Tensor, Tensor, float], tuple[Tensor, Tensor]]


def closed_form(kernel: Kernel) -> ClosedForm | None:
    """That of an energy of unweighted neurons, if it has one: (cosines, spare, s) → Σφ, φ'."""
    if kernel.angular:
        return None
    if kernel.half_space:
        return {0.0: _half_0, 2.0: _half_2}.get(kernel.s, _half_any)
    return {0.0: _full_0, 1.0: _full_1, 2.0: _full_2}.get(kernel.s, _full_any)


def _full_2(c: Tensor, spare: Tensor, s: float) -> tuple[Tensor, Tensor]:
    # φ = 1/q = r/2 with r = 1/(1−c); φ' = 2/q² = r²/2
    r = torch.sub(1, c, out=spare).reciprocal_()
    return 0.5 * r.sum(), torch.mul(r, r, out=c).mul_(0.5)


def _full_1(c: Tensor, spare: Tensor, s: float) -> tuple[Tensor, Tensor]:
    # φ = q^(−1/2); φ' = q^(−3/2)
    r = torch.sub(2, c, alpha=2, out=spare).rsqrt_()
    return r.sum(), torch.pow(r, 3, out=c)


def _full_0(c: Tensor, spare: Tensor, s: float) -> tuple[Tensor, Tensor]:
    # φ = −½·log q; φ' = 1/q
    q = torch.sub(2, c, alpha=2, out=spare)
    return -0.5 * torch.log(q, out=c).sum(), q.reciprocal_()


def _full_any(c: Tensor, spare: Tensor, s: float) -> tuple[Tensor, Tensor]:
    # φ = q^(−s/2); φ' = s·φ/q
    q = torch.sub(2, c, alpha=2, out=spare)
    energies = torch.pow(q, -s / 2, out=c)
    return energies.sum(), energies.div_(q).mul_(s)


def _half_2(c: Tensor, spare: Tensor, s: float) -> tuple[Tensor, Tensor]:
    # 1/(2−2c) + 1/(2+2c) = 1/(1−c²); φ' = 2c/(1−c²)²
    r = torch.addcmul(c.new_ones(()), c, c, value=-1, out=spare).reciprocal_()
    value = r.sum()
    return value, c.mul_(r.square_()).mul_(2)


def _half_0(c: Tensor, spare: Tensor, s: float) -> tuple[Tensor, Tensor]:
    # −½·log(4(1−c²)); φ' = c/(1−c²)
    y = torch.addcmul(c.new_ones(()), c, c, value=-1, out=spare)
    slope = c.div_(y)
    return -0.5 * y.mul_(4).log_().sum(), slope


def _half_any(c: Tensor, spare: Tensor, s: float) -> tuple[Tensor, Tensor]:
    # (2−2c)^(−s/2) + (2+2c)^(−s/2); φ' = s·((2−2c)^(−s/2−1) − (2+2c)^(−s/2−1))
    near = torch.sub(2, c, alpha=2, out=spare)
    far = c.mul_(2).add_(2)
    energies, opposites = _riesz(near, s), _riesz(far, s)
    value = energies.sum() + opposites.sum()
    return value, energies.div_(near).sub_(opposites.div_(far)).mul_(s)


def _riesz(q: Tensor, s: float) -> Tensor:
    return q.rsqrt() if s == 1 else q.pow(-s / 2)


def is_clear(cosines: Tensor, kernel: Kernel) -> bool:
    """Whether no pair of the tile is so close that the precision guard acts; also with NaN, to carry it on."""
    low, high = cosines.aminmax() if kernel.half_space else (None, cosines.max())
    limit = 1 - kernel.floor / 2
    return not bool(high > limit) and (low is None or not bool(low < -limit))
