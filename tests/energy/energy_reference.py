"""The energies by plain loops over pairs, in float64, from thesis 5.1, 5.5, D.10."""

import math

import numpy as np


def reference_energy(w, s=2.0, distance="euclidean", half_space=False, weights=None, reduction="mean"):
    w = np.asarray(w, dtype=np.float64)
    unit = [row / math.sqrt(float(row @ row)) for row in w]
    beta = [1.0] * len(unit) if weights is None else [float(b) for b in weights]
    points = [b * u for b, u in zip(beta, unit, strict=True)]
    if half_space:
        points = points + [-p for p in points]
    total = 0.0
    for i, p in enumerate(points):
        for j, q in enumerate(points):
            if i == j:
                continue
            if distance == "euclidean":
                far = math.sqrt(float((p - q) @ (p - q)))
            else:
                far = 2 * math.atan2(np.linalg.norm(p - q), np.linalg.norm(p + q))
            total += math.log(1 / far) if s == 0 else far**-s
    pairs = len(points) * (len(points) - 1)
    return total / max(pairs, 1) if reduction == "mean" else total


def uniform_energy(s, dim):
    """I_s(σ), the mean energy of independent uniform directions in R^dim, for 0 < s < dim − 1."""
    return (
        2 ** (dim - 2 - s)
        * math.gamma(dim / 2)
        * math.gamma((dim - 1 - s) / 2)
        / (math.sqrt(math.pi) * math.gamma(dim - 1 - s / 2))
    )
