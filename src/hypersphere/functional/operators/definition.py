"""What a fused block computes, by plain differentiable operations: second derivatives are those of this."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from ..._core.processes import moments
from ..._core.sphere import safe_reciprocal, sqrt, unit, upcast
from ...kernels.spec import Fields
from ..angular import angular
from ..magnitude import magnitude, magnitude_ratio
from .geometry import Geometry, box, convolve, per_channel


def composed_block(
    f: Fields,
    reach: Tensor | None,
    x: Tensor,
    q: Tensor | None,
    weight: Tensor,
    k: Tensor | None = None,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    rho: Tensor | None = None,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    leaks: Tensor | None = None,
    mean: Tensor | None = None,
    var: Tensor | None = None,
    group: Any = None,
) -> tuple[Tensor, Tensor]:
    """(z, q′) by plain differentiable operations: the definition; ``reach`` is ρ times the mean norm that was used."""
    geometry = Geometry(*f.window)
    wide = upcast(x)
    if q is None:
        squares = wide * wide
        q = squares.unflatten(1, (geometry.groups, -1)).sum(2)
    n = sqrt(box(q, geometry)) if geometry.kernel else sqrt(q)
    filters, dims = geometry.filters(upcast(weight))
    y = upcast(convolve(x, unit(filters, dims).reshape(weight.shape).to(x.dtype), geometry))
    n = per_channel(n, y.shape[1])
    radius: Any = f.rho if rho is None else rho
    if f.running and reach is not None:
        radius = radius * (reach / radius).detach()
    channels = [-1] + [1] * (y.dim() - 2)
    if f.angular == "cosine":
        value = y * magnitude_ratio(n, f.magnitude, f.alpha, f.beta, radius)
    else:
        curve: Any = f.k if k is None else k.view(channels)
        value = angular(y * safe_reciprocal(n), f.angular, curve if f.angular == "sigmoid" else 0.3)
        if not f.is_sphere:
            value = value * magnitude(n, f.magnitude, f.alpha, f.beta, radius)
    if scale is not None:
        value = value * upcast(scale).view(channels)
    if shift is not None:
        value = value + upcast(shift).view(channels)
    if f.norm == "train" and group is not None:
        centre, spread, _ = moments(value, group)
        value = (value - centre.view(channels)) * (spread + f.eps).rsqrt().view(channels)
        value = value if gamma is None or beta is None else value * gamma.view(channels) + beta.view(channels)
    elif f.norm != "none":
        mean, var, gamma, beta = (None if v is None else upcast(v) for v in (mean, var, gamma, beta))
        value = F.batch_norm(value, mean, var, gamma, beta, f.norm == "train", 0.0, f.eps)
    z = _activated(f, value, leaks).to(x.dtype)
    return z, upcast(z).square().sum(1, keepdim=True)


def _activated(f: Fields, u: Tensor, leaks: Tensor | None) -> Tensor:
    match f.activation:
        case "relu":
            return F.relu(u)
        case "leaky_relu":
            return F.leaky_relu(u, f.leak) if leaks is None else F.prelu(u, upcast(leaks))
        case "gelu":
            return F.gelu(u)
        case "gelu_tanh":
            return F.gelu(u, approximate="tanh")
        case "silu":
            return F.silu(u)
        case _:
            return u
