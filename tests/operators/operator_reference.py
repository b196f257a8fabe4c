"""Slow float64 references, written from the equations with NumPy loops; they share no code with the package."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

K = 0.3

ANGULAR: dict[str, Callable[[float], float]] = {
    "cosine": math.cos,
    "linear": lambda t: 1 - 2 * t / math.pi,
    # paper eq. 4, as printed
    "sigmoid": lambda t: (
        (1 + math.exp(-math.pi / (2 * K)))
        / (1 - math.exp(-math.pi / (2 * K)))
        * (1 - math.exp(t / K - math.pi / (2 * K)))
        / (1 + math.exp(t / K - math.pi / (2 * K)))
    ),
    "square_cosine": lambda t: math.copysign(math.cos(t) ** 2, math.cos(t)),
}

MAGNITUDE: dict[str, Callable[[float], float]] = {
    "sphere": lambda n: 1.0,
    "ball": lambda n: min(n, 1.0) / 1.0,
    "tanh": lambda n: math.tanh(n / 1.0),
    "linear": lambda n: n,
    "segment": lambda n: n if n <= 1.0 else 0.5 * n + 1.0 - 0.5,
    "log": lambda n: math.log(1 + n),
    "mix": lambda n: n + math.log(1 + n),
}


def operator(w: np.ndarray, x: np.ndarray, h: str, g: str, weighted: str | None = None) -> float:
    """f(w, x) of two vectors (thesis 4.4-4.16)."""
    nw, nx = float(np.sqrt((w * w).sum())), float(np.sqrt((x * x).sum()))
    if nw == 0 or nx == 0:
        return 0.0
    theta = math.acos(max(-1.0, min(1.0, float((w * x).sum()) / (nw * nx))))
    size = {
        None: lambda: MAGNITUDE[h](nx),
        "linear": lambda: nw * MAGNITUDE[h](nx),
        "product": lambda: MAGNITUDE[h](nw * nx),
        "separate": lambda: MAGNITUDE[h](nw) * MAGNITUDE[h](nx),
    }[weighted]()
    return size * ANGULAR[g](theta)


def convolution(
    x: np.ndarray,
    w: np.ndarray,
    h: str,
    g: str,
    weighted: str | None = None,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> np.ndarray:
    """The operator on every patch of x (N, C, ...), one at a time."""
    dims = w.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * dims)
    kernel = w.shape[2:]
    size = [(s - dilation * (k - 1) - 1) // stride + 1 for s, k in zip(x.shape[2:], kernel, strict=True)]
    out = np.zeros((x.shape[0], w.shape[0], *size))
    inputs, outputs = w.shape[1], w.shape[0] // groups
    for n, c in itertools.product(range(x.shape[0]), range(w.shape[0])):
        first = c // outputs * inputs
        for position in itertools.product(*map(range, size)):
            window = tuple(
                slice(p * stride, p * stride + dilation * (k - 1) + 1, dilation)
                for p, k in zip(position, kernel, strict=True)
            )
            out[(n, c, *position)] = operator(w[c], x[(n, slice(first, first + inputs), *window)], h, g, weighted)
    return out


def transposed_convolution(
    x: np.ndarray,
    w: np.ndarray,
    h: str,
    g: str,
    weighted: str | None = None,
    stride: int = 1,
    padding: int = 0,
    output_padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> np.ndarray:
    """The convolution of the zero-stuffed, padded input with the flipped kernel."""
    dims = w.ndim - 2
    stuffed = np.zeros((*x.shape[:2], *[(s - 1) * stride + 1 for s in x.shape[2:]]))
    stuffed[(slice(None), slice(None), *[slice(None, None, stride)] * dims)] = x
    before = [dilation * (k - 1) - padding for k in w.shape[2:]]
    stuffed = np.pad(stuffed, [(0, 0), (0, 0)] + [(b, b + output_padding) for b in before])
    # weight (in, out/groups, ...) → (out, in/groups, ...), flipped
    grouped = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
    kernel = np.concatenate([np.swapaxes(part, 0, 1) for part in grouped])
    kernel = kernel[(slice(None), slice(None), *[slice(None, None, -1)] * dims)]
    return convolution(stuffed, kernel, h, g, weighted, 1, 0, dilation, groups)
