"""The energies by plain loops over pairs, in float64, from thesis 5.1, 5.5, D.10."""

import itertools
import math

import numpy as np
import torch


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


def duplicated(w):
    """The rows with a copy of one direction in another length, and the opposite of one."""
    w = w.clone()
    w[3], w[4] = 3 * w[1], -0.7 * w[2]
    return w


def gradient_without_duplicates(w, s, half_space, beta=None):
    """In float64, the gradient of the mean energy of :func:`duplicated` rows, whose equal pairs have none."""
    x = w.detach().double().requires_grad_()
    points = x / x.norm(dim=1, keepdim=True)
    lengths = [1.0] * len(w) if beta is None else beta.double()
    signs = (1, -1) if half_space else (1,)
    total = x.new_zeros(())
    for i, j in itertools.permutations(range(len(w)), 2):
        for sign in signs if {i, j} not in ({1, 3}, {2, 4}) else ():
            far = (lengths[i] * points[i] - sign * lengths[j] * points[j]).norm()
            total = total + len(signs) * (-far.log() if s == 0 else far**-s)
    count = len(signs) * len(w)
    return torch.autograd.grad(total / (count * (count - 1)), x)[0]


def uniform_energy(s, dim):
    """I_s(σ), the mean energy of independent uniform directions in R^dim, for 0 < s < dim − 1."""
    return (
        2 ** (dim - 2 - s)
        * math.gamma(dim / 2)
        * math.gamma((dim - 1 - s) / 2)
        / (math.sqrt(math.pi) * math.gamma(dim - 1 - s / 2))
    )
