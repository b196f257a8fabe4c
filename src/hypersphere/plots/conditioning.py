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
from ._data import float_values
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

    For the plain problem κ grows at least like c² when n, m > k (asymptotically like c⁴: λ_max rises and λ_min falls).
    On the sphere κ stays constant, provided rows are re-normalised after each step: the value of G_S does not depend on
    the scale, but its Hessian does.

    Args:
        scales: values of c > 0; shown on logarithmic axes.
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
    c = float_values("scales", scales, 1).tolist()
    if len(shape) != 3:
        raise ValueError(f"shape={shape!r} must be three sizes, (n, m, k)")
    n, m = (check_count("shape", size) for size in shape[:2])
    k = check_count("shape[2]", shape[2], minimum=2)  # one number has no direction to turn to
    u, v = optimum(n, m, k, seed)
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


_ZERO = 1e-7  # singular values below this share of the largest, at c = 1, are those of the symmetries
_ROUNDED = 1e-13  # below this share of the largest, a singular value is made of rounding errors


def optimum(n: int, m: int, k: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random U and V with rows of length 1, as the paper assumes; float64."""
    generator = torch.Generator().manual_seed(seed)
    u, v = (torch.randn(rows, k, generator=generator, device="cpu", dtype=torch.float64) for rows in (n, m))
    return unit(u), unit(v)


def condition(u: Tensor, v: Tensor, c: float, kind: str) -> float:
    """κ = λ_max/λ_min (smallest nonzero) of the Hessian JᵀJ at (cU, V/c), J being the Jacobian of the product there.

    ``"plain"`` of G; ``"sphere"`` of G_S after rows are put back to length 1, as training with SphereConv does after
    each step; ``"sphere_free"`` of G_S where the rows are left at lengths c and 1/c. The products do not feel the
    scale: J is that of c = 1 with the columns of U divided by c and those of V multiplied by it, and has its rank.
    """
    check_positive("scales", c)

    def product(left: Tensor, right: Tensor) -> Tensor:
        return (left @ right.T if kind == "plain" else decoupled_linear(right, left).T).flatten()

    with torch.enable_grad():
        parts = torch.autograd.functional.jacobian(product, (u, v))
    left, right = (part.flatten(1) for part in parts)
    first = torch.linalg.svdvals(torch.cat((left, right), 1))
    last = int((first > _ZERO * first[0]).sum()) - 1
    values = first if kind == "sphere" else torch.linalg.svdvals(torch.cat((left / c, right * c), 1))
    if not float(values[last]) > _ROUNDED * float(values[0]):
        raise ValueError(f"scales={c:g} is too far from 1 for float64, which holds no such condition number")
    return float((values[0] / values[last]).square())
