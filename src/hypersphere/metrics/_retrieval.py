"""What is like it? Retrieval by cosine: mAP, mAP@R, R-precision and recall at k, exactly and in blocks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .._core.arrays import takes_arrays
from .._core.checks import check_count
from .._core.modes import without_autocast
from .._core.streams import Shown
from ._counting import Groups, count_at_least
from ._inputs import check_beside, check_features, check_labels, directions, rows_within


@dataclass(frozen=True, eq=False)
class RetrievalResult(Shown):
    """Measurements of the queries that have a relevant item; rates are fractions in [0, 1].

    Attributes:
        average_precisions: Average precision of each query that has a relevant item.
        average_precisions_at_r: The same among the first R items, R being the number of relevant ones.
        r_precisions: Share of relevant items among the first R.
        first_hits: Rank of the first relevant item, from 1.
        queries: Row numbers of the queries that have a relevant item, in the order of the values.
        excluded: Number of queries without any relevant item, such as the only member of a class.
        shown: The values of k for which ``recall`` has an entry.

    Example:
        >>> hs.metrics.retrieval(torch.eye(2).repeat(2, 1), [0, 1, 0, 1]).recall_at(1)
        1.0
    """

    average_precisions: Tensor
    average_precisions_at_r: Tensor
    r_precisions: Tensor
    first_hits: Tensor
    queries: Tensor
    excluded: int
    shown: tuple[int, ...]

    @property
    def map(self) -> float:
        """Mean average precision over the whole ranking."""
        return float(self.average_precisions.mean())

    @property
    def map_at_r(self) -> float:
        """Mean of (1/R) Σ_{i≤R} precision(i)·relevant(i), R the number of relevant items of the query."""
        return float(self.average_precisions_at_r.mean())

    @property
    def r_precision(self) -> float:
        """Mean share of relevant items among the first R."""
        return float(self.r_precisions.mean())

    def recall_at(self, k: int) -> float:
        """Compute the share of queries with a relevant item among the first ``k`` (R@k).

        Args:
            k: number of retrieved items, ≥ 1: a query succeeds if one of them is relevant.

        Returns:
            The recall at k, a fraction of all queries in [0, 1].
        """
        check_count("k", k)
        return float((self.first_hits <= k).double().mean())

    @property
    def recall(self) -> dict[int, float]:
        """R@k for each k in ``shown``."""
        return {k: self.recall_at(k) for k in self.shown}

    def __repr__(self) -> str:
        shown = "".join(f", R@{k}={rate:.4f}" for k, rate in self.recall.items())
        return (
            f"RetrievalResult(map={self.map:.4f}, map_at_r={self.map_at_r:.4f}{shown}, {len(self.queries)} queries, "
            f"{self.excluded} excluded)"
        )


@takes_arrays("features", "queries", labels=("labels", "query_labels"))
@torch.no_grad()
def retrieval(
    features: Tensor,
    labels: Tensor,
    ks: tuple[int, ...] = (1, 5, 10),
    queries: Tensor | None = None,
    query_labels: Tensor | None = None,
) -> RetrievalResult:
    """Rank items by cosine for each query; an item is relevant if it has the query's label.

    Average precision is Σ_{relevant i} (relevant with score ≥ s_i)/(all with score ≥ s_i)/R: items of equal score enter
    together, as in scikit-learn's ``average_precision_score``. Where a rank is needed (R@k, R-precision, mAP@R), ties
    count against the query: irrelevant items of equal score come first.

    Args:
        features: embeddings of the items, (N, d).
        labels: class index of each item, (N,); items of the query's class are relevant.
        ks: the k of R@k shown in ``recall``; the result computes any other.
        queries: embeddings of the queries, (Q, d); None: each item in turn queries all others.
        query_labels: class index of each query, (Q,); required if ``queries`` is given.

    Returns:
        Precision and recall of every query, and their means.

    Raises:
        ValueError: If no query has a relevant item, dimensions differ, or embeddings are not finite.

    Example:
        >>> hs.metrics.retrieval(torch.eye(2).repeat(2, 1), [0, 1, 0, 1]).map
        1.0
    """
    items = check_features("features", features)
    classes = check_labels("labels", labels, len(items)).to(items.device)
    shown = tuple(check_count("ks", k) for k in ks)
    itself = queries is None
    asked, wanted = check_beside("queries", queries, "query_labels", query_labels, ("features", items, classes))
    directed = directions(items)
    asking = directed if itself else directions(asked).to(directed)
    groups, step = Groups(classes), rows_within(len(items))
    parts = []
    for start in range(0, len(asking), step):
        here = slice(start, start + step)
        with without_autocast(items.device):
            scores = asking[here] @ directed.mT
        rows, real = groups.members(wanted[here])
        if itself:
            own = torch.arange(start, start + len(scores), device=items.device)
            real &= rows != own[:, None]
            scores[torch.arange(len(scores), device=items.device), own] = -torch.inf
        parts.append(_precisions(scores, rows, real))
    precision, precision_at_r, share, first = (torch.cat(column) for column in zip(*parts, strict=True))
    found = first > 0
    if not bool(found.any()):
        raise ValueError(
            "no query has a relevant item: every class has a single member, or queries and items share no label"
        )
    return RetrievalResult(
        precision[found],
        precision_at_r[found],
        share[found],
        first[found],
        found.nonzero().squeeze(1),
        int((~found).sum()),
        shown,
    )


def _precisions(scores: Tensor, rows: Tensor, real: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """AP, AP@R, R-precision and rank of the first hit of each row; 0 where nothing is relevant."""
    relevant = scores.gather(1, rows).masked_fill_(~real, torch.inf).sort(1).values  # rising, padding last
    count = real.sum(1, keepdim=True).cpu()
    order = torch.arange(rows.shape[1], device="cpu")
    all_above = count_at_least(scores, relevant).cpu()
    above = count - torch.searchsorted(relevant, relevant).cpu()  # relevant items with at least this score
    place = count - order  # 1 for the best relevant item
    rank = place + (all_above - above)

    def mean(values: Tensor) -> Tensor:
        return values.double().where(order < count, 0.0).sum(1) / count.squeeze(1).clamp_min(1)

    within = rank <= count
    first = rank.gather(1, (count - 1).clamp_min(0)).squeeze(1).where(count.squeeze(1) > 0, 0)
    return mean(above.double() / all_above), mean((place.double() / rank).where(within, 0.0)), mean(within), first
