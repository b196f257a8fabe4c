"""One graph, all of it in every step."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from .. import data
from ..data.loader import IGNORE
from ..runs import Facts
from .source import Batch, share_of_most

_SPARSE = 0.2  # share of nonzero features below which sparse products are faster


class Graph:
    """One graph: every step sees all nodes, the loss those of the training set.

    ``validate`` puts the validation nodes in the place of the test nodes. On a CPU the features are sparse where most
    of them are 0, as words of a document are: nothing is multiplied with a 0, or dropped.
    """

    resident, open_set, pictures, pairs, pixels = True, False, None, None, None
    own: data.OwnImages | None = None

    def __init__(self, graph: data.Graph, validate: bool = False) -> None:
        self.test_classes, self.frequent = graph.classes, share_of_most(graph.labels[graph.train])
        self.facts = Facts(graph.num_classes, in_features=graph.features.shape[1], classes=graph.classes)
        features = graph.normalized_features()
        if features.device.type == "cpu" and features.count_nonzero() < _SPARSE * features.numel():
            features = features.to_sparse_coo().coalesce()
        self._inputs = (features, graph.adjacency())
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
