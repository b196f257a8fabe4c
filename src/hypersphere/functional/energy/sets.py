"""The energies of several sets of neurons, of any sizes, in one call: on a GPU few launches for a whole model."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from .energies import energy
from .joint import joint_energies, together


def set_energies(
    sets: Sequence[Tensor], s: float = 2.0, distance: str = "euclidean", half_space: Sequence[bool] | None = None
) -> list[Tensor]:
    """The mean energy of every set of every tensor, as :func:`energy` gives it.

    On a GPU all sets are computed together, in a few launches; elsewhere one tensor after the other.

    Args:
        sets: Tensors of neurons (..., N, d), each with its own sizes.
        s: Power of the distance.
        distance: ``"euclidean"`` takes ‖ŵ_i − ŵ_j‖ as the distance of two neurons, ``"angular"`` the angle between them
            (thesis 5.5).
        half_space: Of each tensor, whether its energy is that of {ŵ, −ŵ}; None: of none.

    Returns:
        One tensor of shape (...) for each of ``sets``.
    """
    halves = [False] * len(sets) if half_space is None else list(half_space)
    if not sets or not together(sets, s):
        return [energy(w, s, distance, half) for w, half in zip(sets, halves, strict=True)]
    values = joint_energies(sets, halves, s, distance)[1]
    parts = values.split([math.prod(w.shape[:-2]) for w in sets])
    return [part.reshape(w.shape[:-2]) for part, w in zip(parts, sets, strict=True)]


def weighted_energy(
    sets: Sequence[Tensor],
    factors: Sequence[float],
    s: float,
    distance: str,
    half_space: Sequence[bool],
    weights: Sequence[Tensor | None] | None = None,
) -> Tensor | None:
    """Σ factor · mean energy over all sets where they are computed together (see :func:`set_energies`), else None.

    Args:
        sets: Tensors of neurons (..., N, d), each with its own sizes.
        factors: One for each tensor, of each of its sets.
        s: Power of the distance.
        distance: ``"euclidean"`` takes ‖ŵ_i − ŵ_j‖ as the distance of two neurons, ``"angular"`` the angle between them
            (thesis 5.5).
        half_space: Of each tensor, whether its energy is that of {ŵ, −ŵ}.
        weights: Of each tensor, None or the lengths β (..., N) of its neurons, constants: the energy of β_i ŵ_i.
    """
    if not sets or not together(sets, s, weights):
        return None
    return joint_energies(sets, half_space, s, distance, factors, weights)[0]
