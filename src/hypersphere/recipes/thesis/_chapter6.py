"""Chapter 6's compressive MHE: its regularizers, and the network of most of its tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...train import Config
from ..protocols import comhe, edit, mhe, sgd

__all__ = ["KINDS", "network", "projected"]

Kind = Callable[[Config], Config]


def _named(name: str) -> Kind:
    return lambda config: edit(config, regularizer={"name": name})


def _comhe(projection: str, **settings: Any) -> Kind:
    return lambda config: comhe(config, projection, **settings)


KINDS: dict[str, Kind] = {
    "baseline": lambda config: config,
    "orthogonal": _named("orthogonal"),
    "orthonormal": _named("orthonormal"),
    "srip": _named("srip"),
    "mhe": mhe,
    "hs-mhe": lambda config: mhe(config, half=True),
    "g-comhe": _comhe("group"),
    "adv-comhe": _comhe("adversarial"),
    "rp-comhe": _comhe("random"),
    "rp-comhe-max": _comhe("random", aggregate="max"),
    "ap-comhe-alter": _comhe("angle_preserving", extra={"inner_every": 10}),  # 6.6.1: every 10 steps of the network
    "ap-comhe": _comhe("angle_preserving", extra={"unroll": 1}),
}


def network(kind: str, dataset: str = "cifar100", name: str = "cnn9", widths: str = "d1") -> Config:
    """A network of E.1 and E.2 with a regularizer."""
    return KINDS[kind](sgd(dataset, name, widths))


def projected(kind: str, **settings: Any) -> Config:
    """CNN-9 on CIFAR-100 with CoMHE of other projections."""
    return edit(network(kind), regularizer=settings)
