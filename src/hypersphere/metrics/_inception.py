"""Inception score of generated images (Salimans et al. 2016), as in thesis Table D.4."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .._core.arrays import takes_arrays
from .._core.checks import check_count
from .._core.streams import Shown


@dataclass(frozen=True, eq=False)
class InceptionResult(Shown):
    """What :func:`inception_score` gives.

    Attributes:
        score: Mean inception score over the splits, between 1 and the number of classes.
        std: Standard deviation over the splits (divisor n, not n − 1), as in published scores.
        split_scores: Inception score of each split, (splits,).

    Example:
        >>> round(hs.metrics.inception_score(torch.zeros(20, 5), splits=2).score, 6)
        1.0
    """

    score: float
    std: float
    split_scores: Tensor

    def __repr__(self) -> str:
        return f"InceptionResult(score={self.score:.4f} ± {self.std:.4f}, {len(self.split_scores)} splits)"


@takes_arrays("logits")
def inception_score(logits: Tensor, *, splits: int = 10) -> InceptionResult:
    """exp E_x KL(p(y|x) ‖ p(y)) of the class probabilities that a classifier gives generated images.

    The score of Salimans et al. 2016: p(y|x) = softmax(``logits``) and p(y) is its mean over a split. The score lies
    between 1 (all images alike, or none recognised) and the number of classes (each image recognised with certainty,
    all classes equally often). Published numbers are those of Inception-v3 on 50,000 images in ten splits: scores of
    another classifier can only be compared with each other.

    Args:
        logits: ``(N, classes)``; log-probabilities work, too.
        splits: number of consecutive parts of (nearly) equal size, each with its own p(y).

    Returns:
        Mean and standard deviation over the splits.

    Raises:
        ValueError: If ``logits`` is not (N, classes), not finite, or has fewer rows than ``splits``.
        TypeError: If ``logits`` is not floating-point.

    Example:
        >>> sure = 100 * torch.eye(5).repeat(4, 1)
        >>> round(hs.metrics.inception_score(sure, splits=1).score, 3)
        5.0
    """
    if not isinstance(logits, Tensor) or logits.dim() != 2 or logits.shape[1] < 2:
        shape = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ValueError(f"logits must be (N, classes) of two classes or more, not {shape}")
    if not logits.is_floating_point():
        raise TypeError(f"logits must be floating, not {logits.dtype}")
    check_count("splits", splits)
    if len(logits) < splits:
        raise ValueError(f"splits={splits} of {len(logits)} images leave some empty: give more images or fewer splits")
    log_p = logits.detach().cpu().double().log_softmax(1)
    if bool(log_p.isnan().any()):  # also where a row is −∞ throughout
        raise ValueError("logits hold NaN or infinity: look at the classifier or at the images")
    scores = torch.stack([_score(part) for part in log_p.tensor_split(splits)])
    return InceptionResult(float(scores.mean()), float(scores.std(correction=0)), scores)


def _score(log_p: Tensor) -> Tensor:
    p = log_p.exp()
    marginal = p.mean(0)
    return (torch.xlogy(p, p).sum(1).mean() - torch.xlogy(marginal, marginal).sum()).exp()  # H(y) − H(y|x)
