"""Slow float64 references, written from the equations with NumPy loops; they share no code with the package."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

K = 0.3

# g by its angle t and, for the sigmoid, its k.
ANGULAR: dict[str, Callable[..., float]] = {
    "cosine": lambda t, k=K: math.cos(t),
    "linear": lambda t, k=K: 1 - 2 * t / math.pi,
    # paper eq. 4, as printed
    "sigmoid": lambda t, k=K: (
        (1 + math.exp(-math.pi / (2 * k)))
        / (1 - math.exp(-math.pi / (2 * k)))
        * (1 - math.exp(t / k - math.pi / (2 * k)))
        / (1 + math.exp(t / k - math.pi / (2 * k)))
    ),
    "square_cosine": lambda t, k=K: math.copysign(math.cos(t) ** 2, math.cos(t)),
}

# h by the norm n, α and ρ; β of segment is 0.5, that of mix 1.
MAGNITUDE: dict[str, Callable[..., float]] = {
    "sphere": lambda n, a=1.0, r=1.0: a,
    "ball": lambda n, a=1.0, r=1.0: a * min(n, r) / r,
    "tanh": lambda n, a=1.0, r=1.0: a * math.tanh(n / r),
    "linear": lambda n, a=1.0, r=1.0: a * n,
    "segment": lambda n, a=1.0, r=1.0: a * n if n <= r else 0.5 * n + (a - 0.5) * r,
    "log": lambda n, a=1.0, r=1.0: a * math.log(1 + n),
    "mix": lambda n, a=1.0, r=1.0: a * n + math.log(1 + n),
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


def patch_norms(x: np.ndarray, size: int, stride: int, padding: int, dilation: int, groups: int) -> np.ndarray:
    """The norm of every patch of x (N, C, ...) in each group of channels."""
    dims = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(padding, padding)] * dims)
    sizes = [(s - dilation * (size - 1) - 1) // stride + 1 for s in x.shape[2:]]
    channels = x.shape[1] // groups
    out = np.zeros((x.shape[0], groups, *sizes))
    for n, g, *position in itertools.product(range(x.shape[0]), range(groups), *map(range, sizes)):
        window = tuple(slice(p * stride, p * stride + dilation * (size - 1) + 1, dilation) for p in position)
        out[(n, g, *position)] = np.sqrt((x[(n, slice(g * channels, (g + 1) * channels), *window)] ** 2).sum())
    return out
