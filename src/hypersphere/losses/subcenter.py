"""Several vectors for a class, of which the closest to a feature counts."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .face import ArcFace

__all__ = ["SubcenterArcFace"]


class SubcenterArcFace(ArcFace):
    """ArcFace with cos θ_j = max_k cos ∠(x, w_jk) over K sub-centers of a class (Deng et al. 2020, eq. 2-3).

    Where labels are wrong or a class has several looks, one sub-center takes the clean majority and the others what
    does not fit: samples need not be close to all of their class. ``weight`` has K·num_classes rows, those of class j
    one after the other. Any softmax head on normalised class vectors takes ``sub_centers``, too.

    Args:
        in_features: length of a feature.
        num_classes: number of classes.
        margin: m in radians, a number or a tensor with one for each class.
        scale: s.
        sub_centers: K.
        options: those of :class:`MarginSoftmax`.
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        margin: float | Tensor = 0.5,
        *,
        scale: float = 64.0,
        sub_centers: int = 3,
        **options: Any,
    ) -> None:
        super().__init__(in_features, num_classes, margin, scale=scale, sub_centers=sub_centers, **options)
