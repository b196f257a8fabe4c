"""The algorithms of thesis appendix F.1 as printed, in float64 NumPy loops: slow, and independent of the library."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def gram_schmidt(u: Matrix) -> Matrix:
    """Algorithm 1."""
    n = len(u)
    r = np.zeros((n, n))
    for j in range(n):
        q = r.T @ u[:, j]
        t = u[:, j] - r @ q
        r[:, j] = t / np.sqrt((t * t).sum())
    return r


def iterative_gram_schmidt(u: Matrix, passes: int = 3) -> Matrix:
    """Algorithm 2, its while loop unrolled."""
    n = len(u)
    r = np.zeros((n, n))
    for j in range(n):
        t = u[:, j].copy()
        for _ in range(passes):
            p = t
            s = r.T @ p
            t = p - r @ s
        r[:, j] = t / np.sqrt((t * t).sum())
    return r


def householder(u: Matrix) -> tuple[Matrix, int]:
    """Algorithm 3: Q = H₁⋯H_{n−1}, and how many of the reflections are not the identity."""
    u = u.copy()
    n = len(u)
    q = np.eye(n)
    reflections = 0
    for j in range(n - 1):
        v, beta = _reflector(u[j:, j].copy())
        u[j:, j:] -= beta * np.outer(v, v @ u[j:, j:])
        h = np.eye(n)
        h[j:, j:] -= beta * np.outer(v, v)
        q = q @ h
        reflections += beta != 0
    return q, reflections


def _reflector(x: Matrix) -> tuple[Matrix, float]:
    sigma2 = float((x[1:] ** 2).sum())
    v = np.concatenate([[1.0], x[1:]])
    if sigma2 == 0:
        return v, 0.0
    length = np.sqrt(x[0] ** 2 + sigma2)
    v[0] = x[0] - length if x[0] <= 0 else -sigma2 / (x[0] + length)
    beta = 2 * v[0] ** 2 / (sigma2 + v[0] ** 2)
    return v / v[0], beta


def lowdin(u: Matrix) -> Matrix:
    """U·M^(−1/2) with M = UᵀU by its eigenvectors (F.10)."""
    eigenvalues, vectors = np.linalg.eigh(u.T @ u)
    return u @ (vectors @ np.diag(eigenvalues**-0.5) @ vectors.T)


def skew(u: Matrix) -> Matrix:
    n = len(u)
    a = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            a[i, j], a[j, i] = u[i, j], -u[i, j]
    return a


def cayley(u: Matrix) -> Matrix:
    """(I + W)(I − W)⁻¹ (thesis 7.3.4)."""
    w, identity = skew(u), np.eye(len(u))
    return (identity + w) @ np.linalg.inv(identity - w)


def exponential(u: Matrix) -> Matrix:
    """exp W by its power series (the norm is small in the tests)."""
    w = skew(u)
    term, total = np.eye(len(u)), np.eye(len(u))
    for k in range(1, 80):
        term = term @ w / k
        total = total + term
    return total


def energy(v: Matrix) -> float:
    """Σ_{i≠j} ‖v̂ᵢ − v̂ⱼ‖⁻¹ (thesis 7.2)."""
    unit = v / np.sqrt((v * v).sum(-1, keepdims=True))
    total = 0.0
    for i in range(len(unit)):
        for j in range(len(unit)):
            if i != j:
                total += 1.0 / np.sqrt(((unit[i] - unit[j]) ** 2).sum())
    return total
