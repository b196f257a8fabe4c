"""From embeddings to scored pairs: cosines, mean subtraction, and LFW's two protocols in one call."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from .._core.arrays import as_tensor, takes_arrays
from .._core.modes import without_autocast
from .._core.sphere import upcast
from ._inputs import check_features, directions, rows_within
from ._verification import VerificationResult, cross_validate, pair_kinds, split_validate


class PairList(Protocol):
    """Pairs of rows: what :class:`hypersphere.data.Pairs` is."""

    @property
    def left(self) -> Tensor: ...
    @property
    def right(self) -> Tensor: ...
    @property
    def same(self) -> Tensor: ...
    @property
    def fold(self) -> Tensor: ...


@takes_arrays("features", "mean")
@torch.no_grad()
def pair_scores(features: Tensor, left: Tensor, right: Tensor, mean: Tensor | None = None) -> Tensor:
    """cos⟨x_l − μ, x_r − μ⟩ of each pair of rows (l, r).

    Args:
        features: features (N, d), one sample per row.
        left: row number of the first of each pair, (n,).
        right: row number of the second, (n,).
        mean: μ (d,), subtracted from every feature, e.g. the mean of the training set; None subtracts nothing.

    Returns:
        (n,); a feature equal to μ has cosine 0 with every other.

    Raises:
        ValueError: If ``left`` and ``right`` differ in length or name rows that do not exist, or ``mean`` has another
            dimension.

    Example:
        >>> hs.metrics.pair_scores(torch.eye(2), [0, 0], [0, 1])
        tensor([1., 0.])
    """
    x = check_features("features", features)
    pairs = [_rows(name, index, len(x)).to(x.device) for name, index in (("left", left), ("right", right))]
    if len(pairs[0]) != len(pairs[1]):
        raise ValueError(f"left has {len(pairs[0])} rows, right {len(pairs[1])}: a pair has one of each")
    if mean is not None:
        if mean.shape != x.shape[1:]:
            raise ValueError(f"mean has shape {tuple(mean.shape)}: features have dimension {x.shape[1]}")
        mean = check_features("mean", mean[None])[0].to(upcast(x))
    return _cosines(x, pairs[0], pairs[1], mean)


@takes_arrays("features")
@torch.no_grad()
def verify_pairs(
    features: Tensor, pairs: PairList, *, center: bool | Tensor = False, train_pairs: PairList | None = None
) -> VerificationResult:
    """Evaluate the cosines of pairs of features as in LFW.

    With ``train_pairs`` (View 1) the threshold is chosen on those pairs. Otherwise (View 2) ``pairs.fold`` numbers the
    folds, and the threshold of each fold is chosen on the other folds.

    Args:
        features: embeddings of all images, (N, d); ``hs.embed(model, images, flip=True)`` concatenates those of each
            image and its mirror image.
        pairs: anything with ``left``, ``right``, ``same`` and, for View 2, ``fold``, such as ``faces.pairs``.
        center: subtract a mean from every feature first. True takes the mean of the features of the pairs that the
            threshold is chosen on, each as often as a pair names it, as the SphereFace evaluation does. A tensor (d,)
            is subtracted itself.
        train_pairs: pairs that the threshold is chosen on; None takes the other folds.

    Returns:
        Accuracy, its standard error, the thresholds and the ROC curve.

    Raises:
        ValueError: If the pairs have fewer than two folds and no ``train_pairs`` are given, or pairs of one kind are
            missing.

    Example:
        >>> features = torch.eye(4).repeat(2, 1)
        >>> pairs = hs.data.make_pairs(torch.arange(8) % 4, folds=2, each=2)
        >>> hs.metrics.verify_pairs(features, pairs).accuracy
        1.0
    """
    x, given = check_features("features", features), _columns("pairs", pairs)
    same = pair_kinds("pairs.same", given.same, len(given.left))

    def score(other: _Columns, mean: Any) -> Tensor:
        return pair_scores(x, other.left, other.right, mean).cpu().double()

    fixed = None if isinstance(center, bool) else center
    if train_pairs is not None:
        chosen_on = _columns("train_pairs", train_pairs)
        train_same = pair_kinds("train_pairs.same", chosen_on.same, len(chosen_on.left))
        mean = _mean(x, chosen_on, slice(None)) if center is True else fixed
        return split_validate(score(chosen_on, mean), train_same, score(given, mean), same)
    if given.fold is None or given.fold.shape != same.shape or len(given.fold.unique()) < 2:
        raise ValueError("pairs.fold must number at least two folds, one number per pair; or pass train_pairs=")
    if center is not True:
        column = score(given, fixed)
        return cross_validate(lambda _, __: column, same, given.fold.cpu())
    return cross_validate(lambda _, held: score(given, _mean(x, given, ~held)), same, given.fold.cpu())


class _Columns(NamedTuple):
    left: Tensor
    right: Tensor
    same: Tensor
    fold: Tensor | None


def _columns(argument: str, pairs: PairList) -> _Columns:
    """The columns of a list of pairs as tensors; ``fold`` may be missing."""
    left, right, same = (as_tensor(f"{argument}.{name}", getattr(pairs, name)) for name in ("left", "right", "same"))
    fold = getattr(pairs, "fold", None)
    return _Columns(left, right, same, None if fold is None else as_tensor(f"{argument}.fold", fold))


def _cosines(x: Tensor, left: Tensor, right: Tensor, mean: Tensor | None) -> Tensor:
    rows = rows_within(x.shape[1])
    parts = []
    for one, other in zip(left.split(rows), right.split(rows), strict=True):
        a, b = upcast(x[one]), upcast(x[other])
        if mean is not None:
            a, b = a - mean, b - mean
        parts.append((directions(a) * directions(b)).sum(1).clamp(-1, 1))
    return torch.cat(parts)


def _mean(x: Tensor, pairs: _Columns, chosen: Tensor | slice) -> Tensor:
    named = torch.cat([_rows("left", pairs.left, len(x))[chosen], _rows("right", pairs.right, len(x))[chosen]])
    times = torch.bincount(named, minlength=len(x)).to(x.device)
    wide = upcast(x)
    with without_autocast(x.device):
        return (times.to(wide.dtype) @ wide) / times.sum()


def _rows(argument: str, index: Any, count: int) -> Tensor:
    index = as_tensor(argument, index)
    if index.ndim != 1 or index.is_floating_point() or index.dtype == torch.bool:
        raise ValueError(f"{argument} must be a one-dimensional tensor of row numbers")
    if not len(index):
        raise ValueError(f"{argument} is empty: there are no pairs to score")
    if int(index.min()) < 0 or int(index.max()) >= count:
        worst = int(index.min()) if int(index.min()) < 0 else int(index.max())
        raise ValueError(f"{argument} names row {worst}, but there are {count} features")
    return index.cpu().long()
