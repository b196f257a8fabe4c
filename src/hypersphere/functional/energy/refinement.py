"""Refinement: move given vectors over the sphere to a minimum of their energy (thesis 7.3.7)."""

from __future__ import annotations

import math
from collections import deque

import torch
from torch import Tensor

from ..._core.checks import check_choice, check_count, check_positive
from ..._core.errors import check_floating
from ..._core.modes import without_autocast
from ..._core.sphere import unit, upcast
from .energies import energy

_SMALL = 1024
"""Sets with at most this many coordinates (N·d) get several starts by default."""


def refine(
    w: Tensor,
    s: float = 1.0,
    half_space: bool = False,
    steps: int = 1000,
    *,
    distance: str = "euclidean",
    lr: float | None = None,
    starts: int | None = None,
    tolerance: float | None = None,
    seed: int = 0,
) -> Tensor:
    """argmin E_s over unit vectors, starting from the directions of ``w`` (thesis 7.3.7).

    Limited-memory quasi-Newton steps on the sphere minimise the scale-free objective (1/s)·log E_s (E_0 itself for s =
    0). ``s=math.inf`` maximises the smallest distance (Tammes' problem) by continuation in s. The matrix of all pairs
    is kept only for s > 16. Half-precision inputs are computed in float32. The result has no gradient.

    With ``lr`` the function runs plain gradient descent on the mean energy instead, as in thesis 7.5.3, which stops
    after 5,000 steps. The result need not be a minimum. In full space this can be an advantage: with more neurons than
    dimensions, a minimum contains opposite neurons, which are collinear.

    Args:
        w: sets of neurons, one neuron per row; zero vectors get random directions.
        s: power of the distance, ≥ 0, or ``math.inf``.
        half_space: minimise the energy of {ŵ, −ŵ} instead, as in :func:`energy`.
        steps: largest number of steps (a fifth of it for each s of a continuation); 0 only normalises.
        distance: ``"euclidean"`` or ``"angular"``, as in :func:`energy`.
        lr: rate of plain gradient descent, for s ≤ 16; None takes quasi-Newton steps.
        starts: number of independent descents; the result of lowest energy is returned. The first starts from ``w``,
            the others from ``w`` with noise as large as the vectors. None is 8 (32 for s > 16) for small sets (N·d ≤
            1024), which have many local minima; it is 1 for larger sets and with ``lr``.
        tolerance: stop when no entry of the gradient exceeds it; None is √eps/100 of the dtype, or never with ``lr``.
        seed: seed of that noise, and of the tiny jitter (1e-4) that separates equal vectors. With ``lr`` there is no
            jitter, and equal vectors stay together.

    Returns:
        Unit vectors in the dtype of ``w``.

    Shape:
        - w: (..., N, d).
        - Output: (..., N, d).

    Raises:
        ValueError: If ``w`` is not (..., N, d) or not finite, ``s`` or ``tolerance`` is negative, ``distance`` is
            unknown, or ``lr`` is not positive or given for s > 16.

    Example:
        >>> w = hs.functional.refine(torch.randn(4, 3))  # a regular tetrahedron
        >>> round(float(hs.functional.largest_cosine(w)), 3)
        -0.333
    """
    check_floating("w", w)
    if w.ndim < 2 or w.shape[-1] == 0:
        raise ValueError(f"w has shape {tuple(w.shape)}: pass neurons as rows, (..., N, d) with d ≥ 1")
    if not bool(torch.isfinite(w).all()):
        raise ValueError("w has NaN or infinite entries: refine needs finite vectors")
    if s != math.inf:
        check_positive("s", s, zero=True)
    check_count("steps", steps, minimum=0)
    check_choice("distance", distance, ("euclidean", "angular"))
    if lr is not None:
        check_positive("lr", lr)
        if s > 16:
            raise ValueError(f"lr={lr} with s={s}: gradient descent is for s ≤ 16, leave lr out for larger powers")
    count, dim = w.shape[-2:]
    if starts is None:
        starts = 1 if lr is not None or count * dim > _SMALL else 8 if s <= 16 else 32
    check_count("starts", starts)
    if tolerance is not None:
        check_positive("tolerance", tolerance, zero=True)
    with torch.inference_mode(False), torch.no_grad(), without_autocast(w.device):
        points = unit(upcast(w.detach()))
        if steps == 0 or count < 2 or dim < 2:
            return points.to(w.dtype)
        trials = _shaken(points.reshape(-1, count, dim), starts, seed, jitter=1e-4 if lr is None else 0.0)
        if lr is None:
            limit = math.sqrt(torch.finfo(points.dtype).eps) / 100 if tolerance is None else tolerance
            found = _minimum(trials, s, half_space, distance, steps, limit)
        else:
            objective = _Objective(s, half_space, distance, scale_free=False)
            found = _descend(trials.flatten(0, 1), objective, steps, lr, tolerance).view_as(trials)
        final = _Objective(min(s, _TAMMES), half_space, distance)(found.flatten(0, 1))[0].view(found.shape[:2])
        best = found[torch.arange(len(found), device=found.device), final.argmin(1)]
        return best.reshape(w.shape).to(w.dtype)


_TAMMES = 2.0**20


def _minimum(trials: Tensor, s: float, half_space: bool, distance: str, steps: int, tolerance: float) -> Tensor:
    """A minimum from each of the (sets, starts), for large s by way of smaller ones."""
    ends = []
    for group, powers in _schedules(trials, s):
        moved = group.flatten(0, 1)
        for power in powers:
            last = power == powers[-1]
            objective = _Objective(power, half_space, distance)
            moved = _minimize(moved, objective, steps if last else -(-steps // 5), tolerance)
        ends.append(moved.view_as(group))
    return torch.cat(ends, 1)


def _schedules(trials: Tensor, s: float) -> list[tuple[Tensor, list[float]]]:
    """Which of the (sets, starts) are to minimise which powers in turn.

    Large powers see only the closest pairs and need a good start: smaller ones give it. But the
    minima of those may all lie in a wrong basin, so every other start enters late.
    """
    last = min(s, _TAMMES)
    if last <= 16:
        return [(trials, [last])]
    powers = [*(4.0**k for k in range(2, 10) if 4.0**k < last), last]
    late = powers[3:] or powers[-1:]
    return [(trials[:, ::2], powers), *([(trials[:, 1::2], late)] if trials.shape[1] > 1 else [])]


def _shaken(sets: Tensor, starts: int, seed: int, jitter: float) -> Tensor:
    """``starts`` copies of each set: the first with a jitter, the others with noise as large as the vectors."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(sets), starts, *sets.shape[1:], generator=generator, device="cpu", dtype=torch.float64)
    noise = unit(noise).to(sets)
    size = torch.ones(starts, 1, 1, dtype=sets.dtype, device=sets.device)
    size[0] = jitter
    empty = (sets == 0).all(-1, keepdim=True)[:, None]
    return unit(torch.where(empty, noise, sets[:, None] + size * noise))


class _Objective:
    """(1/s)·log of the mean energy of each set, and its gradient, which is tangent to the sphere.

    ``scale_free=False`` is the mean energy itself, for s ≤ 16.
    """

    def __init__(self, s: float, half_space: bool, distance: str, scale_free: bool = True) -> None:
        self.s, self.half_space, self.distance, self.scale_free = s, half_space, distance, scale_free

    def __call__(self, points: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            leaf = points.detach().requires_grad_()
            values = self._values(leaf)
            (gradient,) = torch.autograd.grad(values.sum(), leaf)
        return values.detach(), gradient

    def _values(self, points: Tensor) -> Tensor:
        if self.s <= 16:
            mean = energy(points, self.s, self.distance, self.half_space)
            return mean.log() / self.s if self.scale_free and self.s > 0 else mean
        points = unit(points)
        cosines = points @ points.mT
        both = torch.stack([cosines, -cosines]) if self.half_space else cosines[None]
        itself = torch.eye(points.shape[-2], dtype=torch.bool, device=points.device)
        limit = 1 - torch.finfo(points.dtype).eps
        both = both.masked_fill(itself, 0).clamp(-limit, limit)
        log_distance = (2 - 2 * both).log() / 2 if self.distance == "euclidean" else both.arccos().log()
        terms = (-self.s * log_distance).masked_fill(itself, -math.inf)
        return torch.logsumexp(terms.movedim(0, -1).flatten(1), 1) / self.s


def _descend(points: Tensor, objective: _Objective, steps: int, lr: float, tolerance: float | None) -> Tensor:
    """ŵ ← ŵ − lr·∇E and back to length 1, for all sets."""
    for _ in range(steps):
        _, gradient = objective(points)
        if tolerance is not None and bool((gradient.abs() <= tolerance).all()):
            break
        points = unit(points - lr * gradient)
    return points


def _minimize(points: Tensor, objective: _Objective, steps: int, tolerance: float, memory: int = 12) -> Tensor:
    """Quasi-Newton descent of all sets at once, each with its own step length."""
    value, gradient = objective(points)
    history: deque[tuple[Tensor, Tensor, Tensor]] = deque(maxlen=memory)
    eps = torch.finfo(points.dtype).eps
    little = 4 * eps if objective.s <= 16 else max(4 * eps, 1e-9)
    stalled = torch.zeros_like(value)
    for _ in range(steps):
        done = (gradient.abs().amax((1, 2)) <= tolerance) | (stalled >= 3)
        if bool(done.all()):
            break
        direction = _direction(points, gradient, history)
        slope = _dot(direction, gradient)
        uphill = slope >= 0
        direction = torch.where(uphill[:, None, None], -gradient, direction)
        slope = torch.where(uphill, -_dot(gradient, gradient), slope)
        longest = direction.norm(dim=-1).amax(-1)
        cap = 0.5 if history else 0.1
        step = torch.where(done, 0.0, (cap / longest.clamp(min=1e-30)).clamp(max=1.0))
        for _ in range(20):
            moved = unit(points + step[:, None, None] * direction)
            new_value, new_gradient = objective(moved)
            failed = ~(new_value <= value + 1e-4 * step * slope + 4 * eps * value.abs()) & ~done
            if not bool(failed.any()):
                break
            step = torch.where(failed, step * 0.35, step)
        failed = failed | done
        keep = failed[:, None, None]
        moved, new_gradient = torch.where(keep, points, moved), torch.where(keep, gradient, new_gradient)
        new_value = torch.where(failed, value, new_value)
        stalled = torch.where(value - new_value <= little * value.abs(), stalled + 1, 0.0)
        shift, change = moved - points, new_gradient - gradient
        curvature = _dot(shift, change)
        positive = curvature > 1e-12 * (_dot(shift, shift) * _dot(change, change)).sqrt()
        rho = torch.where(positive, 1 / torch.where(positive, curvature, 1.0), 0.0)
        history.append((shift, change, rho))
        points, value, gradient = moved, new_value, new_gradient
    return points


def _direction(points: Tensor, gradient: Tensor, history: deque[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
    """−H·gradient by the two-loop recursion, projected to the tangent space. Pairs with ρ = 0 do nothing."""
    direction, factors = -gradient, []
    for shift, change, rho in reversed(history):
        factor = rho * _dot(shift, direction)
        direction = direction - factor[:, None, None] * change
        factors.append(factor)
    scale = torch.ones_like(gradient[:, :1, :1])
    for shift, change, rho in history:  # the newest usable pair sets the scale
        fresh = _dot(shift, change) / _dot(change, change).clamp(min=1e-300 if change.dtype == torch.float64 else 1e-37)
        scale = torch.where((rho > 0)[:, None, None], fresh[:, None, None], scale)
    direction = direction * scale
    for (shift, change, rho), factor in zip(history, reversed(factors), strict=True):
        back = factor - rho * _dot(change, direction)
        direction = direction + back[:, None, None] * shift
    return direction - points * (direction * points).sum(-1, keepdim=True)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum((-2, -1))
