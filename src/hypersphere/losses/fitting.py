"""Scale and margin by the number of classes, for heads that were not tuned."""

from __future__ import annotations

import math

from .._core.checks import check_count

CONFIDENCE = 0.9999


def fitting_scale(num_classes: int) -> float:
    """A scale s with which the softmax of s·cos θ can become confident, and not larger than necessary.

    It is the larger of two published bounds: AdaCos's √2·log(C − 1), and the s with which a perfect sample (cos 1 to
    its own class, −1/(C − 1) to the others) has the probability 0.9999, which is CosFace's bound.

    Args:
        num_classes: Number of classes C of the training set, at least 2.

    Returns:
        s > 0, for example 10.3 for 10 classes, 16.1 for 1,000, 20.7 for 100,000.

    Raises:
        ValueError: If ``num_classes`` is below 2.

    Example:
        >>> round(hs.losses.fitting_scale(1000), 1)
        16.1
    """
    others = check_count("num_classes", num_classes, minimum=2) - 1
    certain = others / num_classes * math.log(others * CONFIDENCE / (1 - CONFIDENCE))
    return max(math.sqrt(2) * math.log(max(others, 2)), certain)


def fitting_margin(num_classes: int) -> float:
    """An angular margin in radians: 0.2 + 0.1·log₁₀ C, at most ArcFace's 0.5.

    The vectors of few classes are far apart anyway, and a large margin then often makes the training collapse.

    Args:
        num_classes: Number of classes C of the training set, at least 2.

    Returns:
        The margin, in radians.

    Raises:
        ValueError: If ``num_classes`` is below 2.

    Example:
        >>> round(hs.losses.fitting_margin(10), 2), hs.losses.fitting_margin(100_000)
        (0.3, 0.5)
    """
    return min(0.2 + 0.1 * math.log10(check_count("num_classes", num_classes, minimum=2)), 0.5)
