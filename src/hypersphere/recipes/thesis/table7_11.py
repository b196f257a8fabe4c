"""Thesis Table 7.11: OPT of graph convolutional networks."""

from __future__ import annotations

from ...train import Config
from .._grid import grid
from ..protocols import gcn
from ..table import Table
from ._chapter7 import opt

__all__ = ["TABLES", "table7_11"]


def table7_11(method: str, graph: str) -> Config:
    """GCN on a citation graph."""
    return opt(gcn(graph), method)


ACCURACY = {"baseline": (81.3, 79.0), "cp": (82.0, 79.4), "ogd": (82.3, 79.5)}

TABLES = (
    Table(
        "thesis.table7.11", "Graph convolutional networks", "accuracy", grid(table7_11, ("cora", "pubmed"), ACCURACY)
    ),
)
