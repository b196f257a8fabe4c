"""The metrics as ``torchmetrics.Metric``: fed batch by batch, gathered over processes, for Lightning and plain loops.

They keep what they are given and compute once, by the functions of :mod:`hypersphere.metrics`. Scores are taken as they
are. (torchmetrics' own curves put a sigmoid on a batch in which any score leaves [0, 1]; cosines do, in some batches
and not in others, and the ranks across batches are lost.)
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._core.arrays import as_numbers, as_tensor
from ._retrieval import retrieval
from ._verification import verification

try:
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat
except ImportError as error:
    raise ImportError("hypersphere.metrics.streaming needs torchmetrics: pip install 'hypersphere[metrics]'") from error


class Verification(Metric):
    """:func:`hypersphere.metrics.verification` of all scores seen: ``update(scores, same, fold)``.

    Without ``fold`` the pairs are split into ``folds`` consecutive folds in the order they came in. Several processes
    interleave that order: give the fold numbers there. ``compute`` gives ``accuracy``, ``std``, ``auc``, ``eer`` and
    ``tar@far`` for each far.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    scores: list[Tensor]
    same: list[Tensor]
    fold: list[Tensor]

    def __init__(self, folds: int = 10, far: tuple[float, ...] = (1e-1, 1e-2, 1e-3), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.folds, self.far = folds, far
        for name in ("scores", "same", "fold"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, scores: Tensor, same: Tensor, fold: Tensor | None = None) -> None:
        """Add scores (n,), whether each pair is of one class, and the folds they belong to."""
        if bool(self.scores) and bool(self.fold) != (fold is not None):
            raise ValueError("fold was given in some updates and not in others: give it always or never")
        self.scores.append(as_numbers("scores", scores).detach())
        self.same.append(as_tensor("same", same).detach())
        if fold is not None:
            self.fold.append(as_tensor("fold", fold).detach())

    def compute(self) -> dict[str, Tensor]:
        """The metrics over everything seen."""
        folds = dim_zero_cat(self.fold) if len(self.fold) else self.folds
        found = verification(dim_zero_cat(self.scores), dim_zero_cat(self.same), folds)
        values = {"accuracy": found.accuracy, "std": found.std, "auc": found.auc, "eer": found.eer}
        values |= {f"tar@{rate:g}": found.tar_at(rate) for rate in self.far}
        return {name: torch.tensor(value, device=self.device) for name, value in values.items()}


class Retrieval(Metric):
    """:func:`hypersphere.metrics.retrieval` of all embeddings seen, each querying the others.

    Feed it by ``update(features, labels)``; ``compute`` gives ``map``, ``map@r``, ``r_precision`` and
    ``recall@k`` for each k.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    features: list[Tensor]
    labels: list[Tensor]

    def __init__(self, ks: tuple[int, ...] = (1, 5, 10), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ks = ks
        for name in ("features", "labels"):
            self.add_state(name, default=[], dist_reduce_fx="cat")

    def update(self, features: Tensor, labels: Tensor) -> None:
        """Add embeddings (n, d) and their labels (n,)."""
        self.features.append(as_numbers("features", features).detach())
        self.labels.append(as_tensor("labels", labels).detach())

    def compute(self) -> dict[str, Tensor]:
        """The metrics over everything seen."""
        found = retrieval(dim_zero_cat(self.features), dim_zero_cat(self.labels), self.ks)
        values = {"map": found.map, "map@r": found.map_at_r, "r_precision": found.r_precision}
        values |= {f"recall@{k}": rate for k, rate in found.recall.items()}
        return {name: torch.tensor(value, device=self.device) for name, value in values.items()}
