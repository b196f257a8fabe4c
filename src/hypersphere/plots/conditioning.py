"""Restricted condition number against scale: why directions are easier to learn than products (paper Lemmas 1, 2).

G(U, V) = ½‖F − UVᵀ‖² with U (n, k), V (m, k) and F = UVᵀ, so that (U, V) is an optimum and (cU, V/c) another one with
the same product; G_S is the same of rows scaled to length 1, ½‖F − D_U·UVᵀ·D_V‖².
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .._core.checks import check_count, check_positive
from ..functional import decoupled_linear, unit
from ._style import GREY, LINES, MARKERS, PALETTE, Figure, label_axes, legend, new_figure, picture

_KINDS = {
    "plain": "plain, $G$ (Lemma 1)",
    "sphere": "sphere, $G_S$, rows re-normalised (Lemma 2)",
    "sphere_free": "sphere, $G_S$, lengths left at c and 1/c",
}


@picture
def condition_numbers(
    scales: Sequence[float] = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0),
    *,
    shape: tuple[int, int, int] = (6, 5, 2),
    seed: int = 0,
) -> Figure:
    """Restricted condition number κ of the Hessian at the rescaled optimum (cU, V/c), relative to that at c = 1.

    The plain problem grows at least like c² when n, m > k (asymptotically like c⁴: λ_max rises and λ_min falls). On the
    sphere it stays, provided rows are re-normalised after each step: G_S does not feel the scale, its Hessian does.

    Args:
        scales: each c > 0; shown on logarithmic axes.
        shape: (n, m, k) of U (n, k) and V (m, k), with k ≥ 2.
        seed: seed of U and V, whose rows have length 1.

    Returns:
        The figure, to be shown by a notebook or saved with ``figure.savefig``.

    Raises:
        ValueError: If there is no scale, or a size is too small.

    Example:
        >>> figure = hs.plots.condition_numbers((1.0, 2.0), shape=(4, 3, 2))
        >>> type(figure).__name__
        'Figure'
    """
    if not len(scales):
        raise ValueError("scales is empty: pass at least one c > 0")
    n, m = (check_count("shape", size) for size in shape[:2])
    k = check_count("shape[2]", shape[2], minimum=2)  # one number has no direction to turn to
    u, v = optimum(n, m, k, seed)
    c = [float(scale) for scale in scales]
    figure, (axes,) = new_figure()
    for index, (kind, name) in enumerate(_KINDS.items()):
        first = condition(u, v, 1.0, kind)
        ratios = [condition(u, v, scale, kind) / first for scale in c]
        axes.plot(c, ratios, color=PALETTE[index], ls=LINES[index], lw=1.8, marker=MARKERS[index], ms=5, label=name)
    low, high = min(c), max(c)
    for power in (2, 4):
        axes.plot([low, high], [low**power, high**power], color=GREY, lw=0.8, ls=":", label=f"_c^{power}")
        axes.annotate(
            f"c{'²⁴'[power // 2 - 1]}", (high, high**power), xytext=(4, 0), textcoords="offset points",
            color=GREY, fontsize=9, va="center",
        )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    label_axes(axes, "scale c of (cU, V/c)", "κ(c) / κ(1)")
    legend(axes, loc="upper left")
    return figure


_ZERO = 1e-10  # eigenvalues below this share of the largest are those of the symmetries


def optimum(n: int, m: int, k: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random U and V with rows of length 1, as the paper assumes; float64."""
    generator = torch.Generator().manual_seed(seed)
    u, v = (torch.randn(rows, k, generator=generator, dtype=torch.float64) for rows in (n, m))
    return unit(u), unit(v)


def condition(u: Tensor, v: Tensor, c: float, kind: str) -> float:
    """κ = λ_max/λ_min (smallest nonzero) of the Hessian at (cU, V/c).

    ``"plain"`` of G; ``"sphere"`` of G_S after rows are put back to length 1, as training with SphereConv does after
    each step; ``"sphere_free"`` of G_S where the rows are left at lengths c and 1/c.
    """
    check_positive("scales", c)
    target, a, b = u @ v.T, c * u, v / c
    if kind == "sphere":
        a, b = unit(a), unit(b)
    split = a.numel()

    def objective(point: Tensor) -> Tensor:
        left, right = point[:split].view_as(a), point[split:].view_as(b)
        product = left @ right.T if kind == "plain" else decoupled_linear(right, left).T
        return (target - product).square().sum() / 2

    with torch.enable_grad():
        hessian = torch.autograd.functional.hessian(objective, torch.cat((a.flatten(), b.flatten())))
    values = torch.linalg.eigvalsh((hessian + hessian.T) / 2)
    nonzero = values[values > _ZERO * values[-1]]
    return float(values[-1] / nonzero[0])
