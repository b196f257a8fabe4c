"""One graph, all of it in every step."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from .. import data
from ..data.loader import IGNORE
from ..runs import Facts
from .source import Batch

__all__ = ["Graph"]


class Graph:
    """One graph: every step sees all nodes, the loss those of the training set.

    ``validate`` puts the validation nodes in the place of the test nodes.
    """

    resident, open_set, pictures, pairs, pixels = True, False, None, None, None
    own: data.OwnImages | None = None

    def __init__(self, graph: data.Graph, validate: bool = False) -> None:
        self.test_classes = graph.classes
        self.facts = Facts(graph.num_classes, in_features=graph.features.shape[1], classes=graph.classes)
        self._inputs = (graph.normalized_features(), graph.adjacency())
        self._train = _labels_of(graph, graph.train)
        self._test = _labels_of(graph, graph.val if validate else graph.test)

    def seek(self, step: int) -> int:
        return step

    def batch(self, position: Tensor) -> Batch:
        return self._inputs, self._train

    def test(self) -> Iterator[Batch]:
        yield self._inputs, self._test


def _labels_of(graph: data.Graph, nodes: Tensor) -> Tensor:
    labels = torch.full_like(graph.labels, IGNORE)
    labels[nodes] = graph.labels[nodes]
    return labels
