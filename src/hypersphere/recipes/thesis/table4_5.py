"""Thesis Table 4.5: DCNet-32 on CIFAR-10 and CIFAR-100; the other methods of the table are others' publications."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ...train import Config, LossConfig
from ..table import Cell, Table
from ._chapter4 import decoupled

__all__ = ["TABLES", "table4_5"]


def table4_5(dataset: str, magnitude: str, angular: str) -> Config:
    """ResNet-32 with the weight-normalised softmax."""
    config = decoupled("resnet32", magnitude, angular, dataset=dataset)
    return replace(config, loss=LossConfig(name="w_softmax"))


TABLES = (
    Table(
        "thesis.table4.5",
        "DCNet-32 with the weight-normalised softmax",
        "error",
        (
            Cell("tanh-cosine.cifar10", partial(table4_5, "cifar10+", "tanh", "cosine"), 4.75),
            Cell("tanh-cosine.cifar100", partial(table4_5, "cifar100", "tanh", "cosine"), 21.12),
            Cell("linear-square_cosine.cifar10", partial(table4_5, "cifar10+", "linear", "square_cosine"), 5.34),
            Cell("linear-square_cosine.cifar100", partial(table4_5, "cifar100", "linear", "square_cosine"), 20.23),
        ),
    ),
)
