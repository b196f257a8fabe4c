"""Thesis Table 7.8: OPT of ResNets on CIFAR-100."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..protocols import sgd
from ..table import Table
from ._chapter7 import opt

__all__ = ["TABLES", "table7_8"]


def table7_8(method: str, network: str) -> Config:
    """Table F.2's ResNet-20 or ResNet-32."""
    return opt(sgd("cifar100", network, "f2", 5e-4), method)


ERROR = {"baseline": (31.11, 30.16), "gs": (30.73, 29.56), "cp": (30.47, 29.31)}

TABLES = (Table("thesis.table7.8", "ResNets on CIFAR-100", "error", grid(table7_8, ("resnet20", "resnet32"), ERROR)),)
