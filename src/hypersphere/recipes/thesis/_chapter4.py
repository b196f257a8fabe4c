"""Chapter 4's decoupled networks on CIFAR."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...train import Config
from .._grid import grid
from ..protocols import adam, edit
from ..table import Cell

__all__ = ["Rows", "angular_grid", "decoupled"]

Rows = dict[str, tuple[float | None, ...]]


def decoupled(
    network: str,
    magnitude: str | None,
    angular: str = "cosine",
    *,
    dataset: str = "cifar100",
    weighted: str | None = None,
    aid: str = "projection",
    **model: Any,
) -> Config:
    """Chapter 4's setting: Adam, batch 128, orthogonality 1e-5, weight projection; ``magnitude`` None is the CNN.

    The rate is divided "when the error plateaus": here as in the paper, at 34k and 54k of 64k steps.
    """
    config = adam(dataset, network, "paper_wide" if network == "resnet32" else "c1", **model)
    if magnitude is None:
        return config
    rule = {"conv": "decoupled", "magnitude": magnitude, "angular": angular, "weighted": weighted}
    config = edit(config, model=rule, regularizer={"name": "orthogonal", "weight": 1e-5})
    if weighted is not None or aid == "none":
        return config
    tricks: dict[str, Any] = {"projection_every": 100} if aid == "projection" else {"weighted_gradients": True}
    return edit(config, optim=tricks)


def angular_grid(make: Callable[..., Config], rows: Rows, baseline: float) -> tuple[Cell, ...]:
    """Cells ``baseline`` and ``h.g`` for three g."""
    return (
        Cell("baseline", partial(make, None), baseline),
        *grid(make, ("linear", "cosine", "square_cosine"), rows),
    )
