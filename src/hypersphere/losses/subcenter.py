"""Several vectors for a class, of which the closest to a feature counts."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .face import ArcFace


class SubcenterArcFace(ArcFace):
    """ArcFace with cos θ_j = max_k cos ∠(x, w_jk) over K sub-centers of a class (Deng et al. 2020, eq. 2-3).

    Where labels are wrong or a class has several looks, one sub-center takes the clean majority and the others take
    what does not fit: samples need not be close to all of their class. ``weight`` has K·num_classes rows, those of
    class j one after the other. Every softmax head on normalised class vectors accepts ``sub_centers``.

    Args:
        in_features: number of entries of a feature, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        margin: m in radians, ≥ 0, a number or a tensor with one per class.
        scale: s > 0, the length that features are given.
        sub_centers: K ≥ 1, the vectors of a class; the paper uses 3.
        **options: further settings of :class:`MarginSoftmax`: ``angular`` (g, a name or an object of
            :mod:`hypersphere.angular`; default cosine), ``bias`` (add a learned number per class to the logits; default
            False), ``annealing`` (an :class:`Annealing` or :class:`MarginWarmup` by which the margin grows, or the name
            of a preset; default None, the full margin at once), ``detach_margin`` (treat the margin as a constant in
            the backward pass; default False), ``reduction`` (``"mean"``, ``"sum"`` or ``"none"`` over the samples;
            default ``"mean"``), ``ignore_index`` (label of ignored samples, default −100), ``label_smoothing`` (share
            of the target that is spread over all classes, in [0, 1], default 0), ``class_weight`` (a factor of the loss
            for each class, default None), ``chunk`` (classes per block: ``"auto"``, a number, or None for dense
            logits), ``device`` and ``dtype``.

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Example:
        >>> head = hs.losses.SubcenterArcFace(64, 10, sub_centers=3)
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
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
