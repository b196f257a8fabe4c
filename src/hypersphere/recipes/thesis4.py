"""Thesis chapter 4: decoupled networks on CIFAR (Tables 4.1-4.5, C.2)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ..train import Config, LossConfig
from .protocols import adam, edit
from .table import Cell, Table

__all__ = ["TABLES", "decoupled"]

OPERATORS = {name: name for name in ("sphere", "ball", "tanh", "linear", "segment", "log", "mix")}
ANGULAR = ("linear", "cosine", "square_cosine")
Row = tuple[float | None, ...]


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


def _sgd(magnitude: str | None, angular: str = "cosine") -> Config:
    """C.6: the same with momentum SGD."""
    config = decoupled("resnet32", magnitude, angular)
    return edit(config, optim={"name": "sgd", "lr": 0.1})


def _grid(make: Any, rows: dict[str, Row], baseline: float) -> tuple[Cell, ...]:
    found = [Cell("baseline", partial(make, None), baseline)]
    for name, row in rows.items():
        for angular, value in zip(ANGULAR, row, strict=True):
            found.append(Cell(f"{name}.{angular}", partial(make, name, angular), value))
    return tuple(found)


def _relu(magnitude: str | None, angular: str, relu: bool) -> Config:
    return decoupled("cnn9", magnitude, angular, activation=None if relu else "off")


def _best(dataset: str, magnitude: str, angular: str) -> Config:
    """Table 4.5: with the weight-normalised softmax."""
    config = decoupled("resnet32", magnitude, angular, dataset=dataset)
    return replace(config, loss=LossConfig(name="w_softmax"))


TABLE41 = {
    "linearly-weighted": ({"weighted": "linear"}, 22.95),
    "product-weighted": ({"weighted": "product"}, 23.03),
    "separately-weighted": ({"weighted": "separate"}, 23.38),
    "standard-gradients": ({"aid": "none"}, 23.09),
    "weight-projection": ({"aid": "projection"}, 21.17),
    "weighted-gradients": ({"aid": "gradients"}, 21.45),
}
TABLE42: dict[str, Row] = {
    "linear": (33.39, 31.76, None),
    "tanh": (32.88, 31.88, 34.26),
    "segment": (34.69, 30.34, None),
}
TABLE43: dict[str, Row] = {  # without ReLU: cosine, square cosine; with ReLU: cosine, square cosine
    "sphere": (33.31, 25.90, 26.00, 26.97),
    "ball": (31.81, 25.43, 25.18, 26.48),
    "tanh": (32.27, 25.27, 25.15, 26.94),
    "linear": (36.49, 24.36, 24.81, 25.14),
    "segment": (33.57, 24.29, 24.96, 25.04),
    "log": (33.62, 24.91, 25.17, 25.85),
    "mix": (33.46, 24.93, 25.27, 25.77),
}
TABLE44: dict[str, Row] = {
    "sphere": (21.79, 21.44, 24.40),
    "ball": (21.44, 21.12, 24.31),
    "tanh": (21.6, 21.17, 24.77),
    "linear": (21.09, 22.17, 21.31),
    "segment": (20.86, 20.91, 20.88),
    "log": (21.84, 21.08, 22.86),
    "mix": (21.02, 21.28, 21.81),
}
TABLEC2: dict[str, Row] = {
    "sphere": (21.71, 21.61, 24.62),
    "ball": (20.96, 21.25, 24.40),
    "tanh": (21.07, 21.12, 24.29),
    "linear": (21.43, 21.25, 20.54),
    "segment": (20.58, 20.61, 20.61),
    "log": (21.15, 21.42, 23.10),
    "mix": (20.82, 21.20, 21.19),
}

TABLES = (
    Table(
        "thesis.table4.1",
        "Weighted operators (TanhConv, ResNet-32) on CIFAR-100",
        "error",
        tuple(
            Cell(name, partial(decoupled, "resnet32", "tanh", **settings), value)
            for name, (settings, value) in TABLE41.items()
        ),
    ),
    Table(
        "thesis.table4.2",
        "CNN-9 without BatchNorm on CIFAR-100 (none: not converged)",
        "error",
        _grid(partial(decoupled, "cnn9", norm="off"), TABLE42, 35.30),
    ),
    Table(
        "thesis.table4.3",
        "CNN-9 with and without ReLU on CIFAR-100",
        "error",
        (
            Cell("baseline.no-relu", partial(_relu, None, "cosine", False), 58.24),
            Cell("baseline.relu", partial(_relu, None, "cosine", True), 26.01),
            *(
                Cell(f"{name}.{angular}.{'relu' if relu else 'no-relu'}", partial(_relu, name, angular, relu), value)
                for name, row in TABLE43.items()
                for (relu, angular), value in zip(
                    ((False, "cosine"), (False, "square_cosine"), (True, "cosine"), (True, "square_cosine")),
                    row,
                    strict=True,
                )
            ),
        ),
    ),
    Table("thesis.table4.4", "ResNet-32 on CIFAR-100", "error", _grid(partial(decoupled, "resnet32"), TABLE44, 26.69)),
    Table(
        "thesis.table4.5",
        "DCNet-32 with the weight-normalised softmax",
        "error",
        (
            Cell("tanh-cosine.cifar10", partial(_best, "cifar10+", "tanh", "cosine"), 4.75),
            Cell("tanh-cosine.cifar100", partial(_best, "cifar100", "tanh", "cosine"), 21.12),
            Cell("linear-square_cosine.cifar10", partial(_best, "cifar10+", "linear", "square_cosine"), 5.34),
            Cell("linear-square_cosine.cifar100", partial(_best, "cifar100", "linear", "square_cosine"), 20.23),
        ),
    ),
    Table("thesis.tableC.2", "ResNet-32 trained by SGD on CIFAR-100", "error", _grid(_sgd, TABLEC2, 21.55)),
)
