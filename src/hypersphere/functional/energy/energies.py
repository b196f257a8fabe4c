"""Hyperspherical energy: how evenly neurons spread over directions (thesis 5.1, 5.5, D.10)."""

from __future__ import annotations

import torch
from torch import Tensor

from ..._core.checks import check_choice, check_count, check_positive
from ..._core.errors import check_floating
from ..._core.labels import class_indices
from ..._core.modes import is_plain_eager, whole, without_autocast
from ..._core.sphere import unit, upcast
from .blocks import class_definition, class_sweep, is_fused, sweep
from .dense import DENSE_PAIRS, dense, pairs_of, with_opposites
from .joint import joint_energies, together
from .kernel import Kernel

_JOINT_SETS = 256
"""Up to this many sets of a batch one call of kernels serves: the host makes a table of them."""


def energy(
    w: Tensor,
    s: float = 2.0,
    distance: str = "euclidean",
    half_space: bool = False,
    weights: Tensor | None = None,
    reduction: str = "mean",
    *,
    block_size: int | None = None,
    floor: float | None = None,
) -> Tensor:
    """E_s = Σ_{i≠j} ‖ŵ_i − ŵ_j‖^(−s), and Σ_{i≠j} log(1/‖ŵ_i − ŵ_j‖) for s = 0 (thesis 5.1).

    The rows of ``w`` are the neurons, ŵ their directions; each set of neurons has one energy.

    Half-precision inputs are computed and returned in float32, with or without autocast. Matrix products follow torch's
    float32 matmul precision; if TF32 is allowed, the floor should be about 1e-2. The function is twice differentiable.
    A set with fewer than two neurons has energy 0 in full space. A zero vector has no direction: it counts as
    orthogonal to every other vector and gets gradient 0. A pair of neurons with the same direction, up to rounding (a
    distance of 2·eps), counts in the energy but has gradient 0, because no direction would separate it. NaN in ``w``
    gives NaN.

    Args:
        w: sets of neurons, one neuron per row.
        s: power of the distance, ≥ 0. With a large s only the closest pairs matter; 2 is the thesis' choice.
        distance: ``"euclidean"``, or ``"angular"`` for arccos(ŵ_i·ŵ_j) instead (thesis 5.5).
        half_space: take the energy of the 2N vectors {ŵ, −ŵ} (thesis 5.3.4), including the pairs ŵ_i, −ŵ_i.
        weights: lengths β of the neurons, nonzero: distances become ‖β_i ŵ_i − β_j ŵ_j‖ (thesis D.10). They need
            ``distance="euclidean"`` and get no gradient. Zeros raise ValueError on a CPU. They are not checked on a
            GPU, to avoid a synchronisation.
        reduction: ``"mean"`` over the N(N−1) ordered pairs (2N(2N−1) in half space), or their ``"sum"``.
        block_size: None keeps all cosines in memory for up to 2^20 pairs (N = 1024). For more pairs it computes value
            and gradient together, tile by tile, without an N × N tensor. A number forces tiles of that size.
        floor: squared distance (or squared angle) below which a pair is not resolved, because rounding errors of its
            cosine dominate. There the energy of the pair continues along its tangent, so that near-duplicates have
            large finite energies and gradients that push them apart. None is 16·eps of the computing dtype (distances
            of 1.4e-3 in float32, 6e-8 in float64), or max^(−1.5/(s+2)) of the dtype where s is so large that energies
            would overflow otherwise. A number must not be below max^(−1.8/(s+4)), where gradients overflow, nor above
            16, which no squared distance or angle reaches.

    Returns:
        One energy per set.

    Shape:
        - w: (..., N, d).
        - weights: (..., N).
        - Output: (...).

    Raises:
        ValueError: If ``w`` is not (..., N, d), ``s`` is negative, ``floor`` is out of range, ``weights`` has another
            shape or zeros (on a CPU), or ``weights`` is combined with ``distance="angular"``.
        TypeError: If ``w`` is not a floating-point tensor.

    Example:
        >>> hs.functional.energy(torch.eye(3))  # every distance is √2
        tensor(0.5000)
        >>> hs.functional.energy(torch.eye(3), reduction="sum")
        tensor(3.)
    """
    _check(w, s, distance, half_space, weights, reduction, floor)
    w = whole(w)
    count, batch = w.shape[-2], w.shape[:-2]
    if block_size is not None:
        check_count("block_size", block_size)
    small = block_size is None and w.shape[:-1].numel() * count <= DENSE_PAIRS
    if small and batch.numel() <= _JOINT_SETS and not torch.compiler.is_compiling() and together([w], s, [weights]):
        mean = joint_energies([w], [half_space], s, distance, weights=[weights], floor=floor)[1].reshape(batch)
        return mean if reduction == "mean" else mean * pairs_of(count, half_space)
    with without_autocast(w.device):
        points = unit(upcast(w))
        beta = None if weights is None else upcast(weights.detach()).to(points).expand(w.shape[:-1])
        kernel = Kernel.build(float(s), distance, half_space, floor, points.dtype)
        if count < 2:
            total = 0 * points.sum((-2, -1))
        elif small:
            total = dense(points, beta, kernel)
        else:
            flat, raw = (x.reshape(-1, count, points.shape[-1]) for x in (points, upcast(w)))
            flat_beta = None if beta is None else beta.reshape(-1, count)
            total = sweep(flat, flat_beta, kernel, block_size or _default_block(w.device), raw).reshape(batch)
        total = with_opposites(total, points, beta, kernel)
    return total / max(pairs_of(count, half_space), 1) if reduction == "mean" else total


def class_energy(
    w: Tensor,
    labels: Tensor,
    s: float = 2.0,
    distance: str = "euclidean",
    *,
    floor: float | None = None,
    ignore_index: int = -100,
) -> Tensor:
    """1/(m(N−1)) Σ_i Σ_{j≠y_i} f_s(‖ŵ_{y_i} − ŵ_j‖): the energy of a batch's classes (thesis 5.3.6).

    It estimates the mean energy without bias if labels are drawn evenly. It is always taken in full space, the only
    choice for output layers. Memory is m × N on a CPU and linear in N on a GPU.

    Args:
        w: all class vectors, one per row; their lengths do not matter.
        labels: the classes of the batch, in [0, N).
        s: power of the distance, ≥ 0; 0 is the logarithm.
        distance: ``"euclidean"`` or ``"angular"``, as in :func:`energy`.
        floor: smallest squared distance that counts, as in :func:`energy`.
        ignore_index: label of samples that are ignored; m counts the others.

    Returns:
        A scalar; 0 for an empty batch or a single class.

    Shape:
        - w: (N, d).
        - labels: (m,).
        - Output: scalar.

    Raises:
        ValueError: If ``w`` is not (num_classes, dim), or ``labels`` is not one-dimensional or out of range.

    Example:
        >>> w = torch.eye(3)
        >>> hs.functional.class_energy(w, torch.tensor([0, 2]))
        tensor(0.5000)
    """
    _check(w, s, distance, False, None, "mean", floor)
    if w.ndim != 2:
        raise ValueError(f"w has shape {tuple(w.shape)}: pass the class vectors as (num_classes, dim)")
    if isinstance(labels, Tensor) and labels.ndim != 1:
        raise ValueError(f"labels of shape {tuple(labels.shape)}: pass class indices of shape (m,)")
    w = whole(w)
    classes, counts = class_indices(labels, len(w), ignore_index, w.device)
    with without_autocast(w.device):
        points = unit(upcast(w))
        kernel = Kernel.build(float(s), distance, False, floor, points.dtype)
        classes = torch.where(counts, classes, -1)
        if labels.numel() * len(points) > DENSE_PAIRS and is_fused(points):
            total = class_sweep(points, classes, kernel, upcast(w))
        else:
            total = class_definition(points, classes, kernel)
    return total / (counts.sum() * (len(points) - 1)).clamp_min(1)


def _default_block(device: torch.device) -> int:
    return 1024 if device.type == "cpu" else 4096


def _check(
    w: Tensor,
    s: float,
    distance: str,
    half_space: bool,
    weights: Tensor | None,
    reduction: str,
    floor: float | None,
) -> None:
    check_floating("w", w)
    if w.ndim < 2 or w.shape[-1] == 0:
        raise ValueError(f"w has shape {tuple(w.shape)}: pass neurons as rows, (..., N, d) with d ≥ 1")
    check_positive("s", s, zero=True)
    check_choice("distance", distance, ("euclidean", "angular"))
    check_choice("reduction", reduction, ("mean", "sum"))
    if not isinstance(half_space, bool):
        raise TypeError(f"half_space={half_space!r} must be True or False")
    if floor is not None:
        check_positive("floor", floor)
    if weights is None:
        return
    if distance != "euclidean":
        raise ValueError(f"weights with distance={distance!r}: angles do not depend on them; use distance='euclidean'")
    check_floating("weights", weights)
    try:
        fits = torch.broadcast_shapes(weights.shape, w.shape[:-1]) == w.shape[:-1]
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(f"weights has shape {tuple(weights.shape)}: one per neuron of w needs {tuple(w.shape[:-1])}")
    if weights.device.type == "cpu" and is_plain_eager(weights) and bool((weights == 0).any()):
        raise ValueError("weights has zeros: a neuron of length 0 has no direction; leave it out")
