"""Other measures of how evenly directions spread: Gaussian-kernel uniformity, separation, polarization.

They are not in the source documents but follow the same conventions: neurons are rows, only their directions matter,
and each set has one value.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..._core.checks import check_positive
from ..._core.errors import check_floating
from ..._core.extremes import largest, smallest
from ..._core.modes import whole, without_autocast
from ..._core.sphere import unit, upcast
from .duplicates import distinct
from .kernel import Kernel, pair_energy


def uniformity(w: Tensor, t: float = 2.0) -> Tensor:
    """log mean_{i≠j} exp(−t‖ŵ_i − ŵ_j‖²): 0 if all directions are equal, lower if they are spread more evenly.

    Args:
        w: sets of neurons, one neuron per row.
        t: sharpness of the kernel, > 0; with a large t only the closest pairs matter.

    Returns:
        The uniformity of each set, a number ≤ 0.

    Shape:
        - w: (..., N, d).
        - Output: (...).

    Raises:
        ValueError: If ``w`` is not (..., N, d) or ``t`` is not positive.
        TypeError: If ``w`` is not a floating-point tensor.

    Example:
        >>> hs.functional.uniformity(torch.eye(3))  # every squared distance is 2
        tensor(-4.)
    """
    check_positive("t", t)
    cosines, itself = _cosines(w)
    count = w.shape[-2]
    if count < 2:
        return 0 * cosines.sum((-2, -1))
    exponents = (-t * (2 - 2 * cosines)).masked_fill(itself, -torch.inf)
    pairs = torch.tensor(float(count * (count - 1)), dtype=cosines.dtype, device=cosines.device)
    return exponents.flatten(-2).logsumexp(-1) - pairs.log()


def largest_cosine(w: Tensor) -> Tensor:
    """mean_i max_{j≠i} ŵ_i·ŵ_j: minimise it to increase the angle of every neuron to its nearest neighbour.

    Args:
        w: sets of neurons, one neuron per row.

    Returns:
        The mean over neurons of the cosine to the nearest other one, a number in [−1, 1] per set.

    Shape:
        - w: (..., N, d).
        - Output: (...).

    Example:
        >>> hs.functional.largest_cosine(torch.eye(3))
        tensor(0.)
    """
    cosines, itself = _cosines(w)
    if w.shape[-2] < 2:
        return 0 * cosines.sum((-2, -1))
    return largest(cosines.masked_fill(itself, -torch.inf), -1).mean(-1)


def polarization(w: Tensor, points: Tensor, s: float = 2.0) -> Tensor:
    """min_u mean_i ‖u − ŵ_i‖^(−s) over the given ``points`` u: large if the neurons leave no direction uncovered.

    Maximise it to cover the sphere without holes. Near u = ŵ_i the potential is limited as in :func:`energy`.

    Args:
        w: sets of neurons, one neuron per row.
        points: directions at which coverage is evaluated, e.g. random ones.
        s: power of the distance, ≥ 0 (0: the logarithm); a larger s gives near pairs more weight.

    Returns:
        The smallest potential over ``points``, one number per set.

    Shape:
        - w: (..., N, d).
        - points: (M, d).
        - Output: (...).

    Raises:
        ValueError: If ``w`` is not (..., N, d), ``points`` is not (M, d), one of them is empty, or ``s`` is negative.
        TypeError: If ``w`` or ``points`` is not a floating-point tensor.

    Example:
        >>> hs.functional.polarization(torch.eye(3), torch.tensor([[1.0, 1.0, 1.0]]))
        tensor(1.1830)
    """
    check_floating("w", w)
    check_floating("points", points)
    check_positive("s", s, zero=True)
    if w.ndim < 2 or points.ndim != 2 or points.shape[1] != w.shape[-1] or 0 in (len(points), w.shape[-2]):
        raise ValueError(
            f"w has shape {tuple(w.shape)} and points {tuple(points.shape)}: pass neurons (..., N, d) and directions "
            "(M, d), one of each at least"
        )
    with without_autocast(w.device):
        neurons = unit(upcast(whole(w)))
        places = unit(upcast(points)).to(neurons)
        kernel = Kernel.build(float(s), "euclidean", False, None, neurons.dtype)
        cosines = distinct(places @ neurons.mT, places, neurons, kernel)
        return smallest(pair_energy(cosines, kernel).mean(-1), -1)


def _cosines(w: Tensor) -> tuple[Tensor, Tensor]:
    check_floating("w", w)
    if w.ndim < 2:
        raise ValueError(f"w has shape {tuple(w.shape)}: pass neurons as rows, (..., N, d)")
    with without_autocast(w.device):
        neurons = unit(upcast(whole(w)))
        return neurons @ neurons.mT, torch.eye(w.shape[-2], dtype=torch.bool, device=w.device)
