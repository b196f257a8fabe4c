"""Magnitude functions h (thesis eq. 4.4-4.10) and their slopes h(n)/n."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._core import registries
from .._core.checks import check_positive
from .._core.errors import check_floating
from .._core.sphere import safe_reciprocal, upcast

DEFAULT_BETA = {"segment": 0.5, "mix": 1.0}


class MagnitudeForm(NamedTuple):
    """A built-in h in numbers and tensors, for code that computes it by itself; without a running mean, an h itself.

    Attributes:
        kind: Name of the formula.
        alpha, beta, rho: Its parameters.
        running, tracked: The running mean of the norms that multiplies ρ and the number of its batches, if any.
        momentum: Weight of the newest batch in that mean.
        training: Whether the batch's own mean multiplies ρ, and the running mean moves.
    """

    kind: str
    alpha: float = 1.0
    beta: float = 0.0
    rho: float | Tensor = 1.0
    running: Tensor | None = None
    tracked: Tensor | None = None
    momentum: float = 0.1
    training: bool = False

    def __call__(self, n: Tensor) -> Tensor:
        return magnitude(n, self.kind, self.alpha, self.beta, self.rho)

    def ratio(self, n: Tensor) -> Tensor:
        return magnitude_ratio(n, self.kind, self.alpha, self.beta, self.rho)

    def closed_form(self) -> MagnitudeForm:
        return self

    @property
    def constant(self) -> float | None:
        return self.alpha if self.kind == "sphere" else None


def magnitude(
    norm: Tensor,
    kind: str,
    alpha: float | Tensor = 1.0,
    beta: float | Tensor | None = None,
    rho: float | Tensor = 1.0,
) -> Tensor:
    """h(n) of a norm n ≥ 0 (thesis 4.4-4.10).

    | kind          | h(n)                                                  |
    | ------------- | ----------------------------------------------------- |
    | ``"sphere"``  | α, and 0 at n = 0, where there is no direction        |
    | ``"ball"``    | α·min(n, ρ)/ρ                                         |
    | ``"tanh"``    | α·tanh(n/ρ)                                           |
    | ``"linear"``  | α·n                                                   |
    | ``"segment"`` | α·n up to ρ, from there on with slope β (default 0.5) |
    | ``"log"``     | α·log(1+n)                                            |
    | ``"mix"``     | α·n + β·log(1+n) (β defaults to 1)                    |

    Args:
        norm: norms n ≥ 0 of patches or vectors, of any shape.
        kind: the formula: one of the names above, or the name of a registered h, which sets its own parameters.
        alpha: scale α of the output, > 0; all h are proportional to it.
        beta: second slope or weight, > 0; None is the default of the kind.
        rho: radius, > 0, where ball, tanh and segment bend.

    Returns:
        h(n), in the shape of ``norm``.

    Shape:
        - norm: (*), any shape; alpha, beta and rho broadcast against it.
        - Output: (*), the same shape.

    Raises:
        ValueError: If no h has that name.

    Example:
        >>> hs.functional.magnitude(torch.tensor([0.5, 1.0, 4.0]), "ball")
        tensor([0.5000, 1.0000, 1.0000])
    """
    if kind not in MAGNITUDES:
        return _registered(norm, kind)(norm)
    n, alpha, beta, rho = _checked(norm, kind, alpha, beta, rho)
    return _FORMULAS[kind][0](n, alpha, beta, rho).to(norm.dtype)


def magnitude_ratio(
    norm: Tensor,
    kind: str,
    alpha: float | Tensor = 1.0,
    beta: float | Tensor | None = None,
    rho: float | Tensor = 1.0,
) -> Tensor:
    """Compute h(n)/n. At n = 0 this is the limit (α, α/ρ, ...), or 0 for the sphere, which has no limit there.

    If g is the cosine, h(n)·cos θ = (h(n)/n)·⟨ŵ, x⟩: this form gives the operator its correct gradient at a zero patch.

    Args:
        norm: norms n ≥ 0 of patches or vectors, of any shape.
        kind: the formula, a name of :func:`magnitude`.
        alpha: scale α of the output, > 0; all h are proportional to it.
        beta: second slope or weight, > 0; None is the default of the kind.
        rho: radius, > 0, where ball, tanh and segment bend.

    Returns:
        h(n)/n, in the shape of ``norm``.

    Shape:
        - norm: (*), any shape; alpha, beta and rho broadcast against it.
        - Output: (*), the same shape.

    Example:
        >>> hs.functional.magnitude_ratio(torch.tensor([0.0, 2.0]), "ball")
        tensor([1.0000, 0.5000])
    """
    if kind not in MAGNITUDES:
        h = _registered(norm, kind)
        return h.ratio(norm) if hasattr(h, "ratio") else h(norm) * safe_reciprocal(norm)
    n, alpha, beta, rho = _checked(norm, kind, alpha, beta, rho)
    return _FORMULAS[kind][1](n, alpha, beta, rho).to(norm.dtype)


@torch.no_grad()
def follow(mean: Tensor, running: Tensor, tracked: Tensor, momentum: float) -> Tensor:
    """Move the running mean of norms towards a batch's, and count it; the first one sets it (eq. C.1).

    The mean that ρ is multiplied by comes back: that of the batch, or the running one where it is 0 or not finite.
    """
    counts = torch.isfinite(mean.to(running.dtype)) & (mean > 0)
    mean = torch.where(counts, mean, running.to(mean.dtype))
    weight = torch.where(tracked == 0, 1.0, momentum * torch.ones_like(running))
    running.lerp_(mean.to(running.dtype), weight)
    tracked.add_(counts)
    return mean


_Formula = Callable[[Tensor, Any, Any, Any], Tensor]
_FORMULAS: dict[str, tuple[_Formula, _Formula]] = {  # h(n), and h(n)/n with its limit at 0
    "sphere": (lambda n, a, b, r: a * (n > 0).to(n.dtype), lambda n, a, b, r: a * safe_reciprocal(n)),
    "ball": (lambda n, a, b, r: a * (_smaller(n, r) / r), lambda n, a, b, r: _over(a, _larger(n, r))),
    "tanh": (
        lambda n, a, b, r: a * torch.tanh(n / r),
        lambda n, a, b, r: a * _quotient(torch.tanh(n / r), n, _over(1.0, r)),
    ),
    "linear": (lambda n, a, b, r: a * n, lambda n, a, b, r: a * torch.ones_like(n)),
    "segment": (
        lambda n, a, b, r: b * n + (a - b) * _smaller(n, r),
        lambda n, a, b, r: b + (a - b) * (r / _larger(n, r)),
    ),
    "log": (lambda n, a, b, r: a * torch.log1p(n), lambda n, a, b, r: a * _quotient(torch.log1p(n), n, 1.0)),
    "mix": (
        lambda n, a, b, r: a * n + b * torch.log1p(n),
        lambda n, a, b, r: a + b * _quotient(torch.log1p(n), n, 1.0),
    ),
}
MAGNITUDES = tuple(_FORMULAS)
"""The kinds whose formulas are here; any other is asked for its own."""


def _registered(norm: Tensor, kind: str) -> Any:
    check_floating("norm", norm)
    return registries.MAGNITUDES.find(kind, "kind")()


def _quotient(value: Tensor, n: Tensor, limit: float | Tensor) -> Tensor:
    """value/n, and ``limit`` at n = 0."""
    zero = n == 0
    return torch.where(zero, limit, _over(value, torch.where(zero, 1.0, n)))


def _over(value: float | Tensor, divisor: Any) -> Any:
    """value/divisor by a derivative that does not pass through 1/divisor², which a divisor below 1e-19 overflows.

    The constant cancels; the second factor is 1, and its derivative 1/divisor.
    """
    if not isinstance(divisor, Tensor) or not torch.is_grad_enabled():
        return value / divisor
    constant = divisor.detach()
    constant = torch.where((constant > 0) & (constant < torch.inf), constant, 1.0)
    return (value / constant) * (constant / divisor)


def _smaller(n: Tensor, rho: float | Tensor) -> Tensor:
    return torch.minimum(n, rho) if isinstance(rho, Tensor) else n.clamp_max(rho)


def _larger(n: Tensor, rho: float | Tensor) -> Tensor:
    return torch.maximum(n, rho) if isinstance(rho, Tensor) else n.clamp_min(rho)


def _checked(
    norm: Tensor, kind: str, alpha: float | Tensor, beta: float | Tensor | None, rho: float | Tensor
) -> tuple[Tensor, float | Tensor, float | Tensor, float | Tensor]:
    check_floating("norm", norm)
    if not isinstance(alpha, Tensor):
        check_positive("alpha", alpha)
    if not isinstance(rho, Tensor):
        check_positive("rho", rho)
    if beta is None:
        beta = DEFAULT_BETA.get(kind, 0.0)
    elif not isinstance(beta, Tensor):
        check_positive("beta", beta, zero=True)
    return upcast(norm), alpha, beta, rho
