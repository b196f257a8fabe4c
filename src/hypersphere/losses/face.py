"""Margins on normalised features, as in face recognition: CosFace, ArcFace (also with sub-centers), SphereFace-R."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .._core.checks import check_choice
from .._core.sphere import angle
from ..functional.margins import additive_angle, check_margin, clipped_multiple, psi
from ._inputs import check_margins, without
from .margin_softmax import MarginSoftmax
from .sample import Sample


class AMSoftmax(MarginSoftmax):
    """AM-Softmax, CosFace: target logit s·(cos θ_y − m), other logits s·cos θ_j (thesis D.11).

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        margin: m ≥ 0, a number or a tensor with one per class; subtracted from the cosine.
        scale: s > 0, the length to which features are scaled.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Losses are computed in at least float32.
        **options: further settings of :class:`MarginSoftmax`: ``bias`` (add a learned number per class to the logits;
            default False), ``annealing`` (an :class:`Annealing` or :class:`MarginWarmup` by which the margin grows, or
            the name of a preset; default None, the full margin at once), ``detach_margin`` (treat the margin as a
            constant in the backward pass; default False), ``reduction`` (``"mean"``, ``"sum"`` or ``"none"`` over the
            samples; default ``"mean"``), ``ignore_index`` (label of ignored samples, default −100), ``label_smoothing``
            (share of the target that is spread over all classes, in [0, 1], default 0), ``class_weight`` (a factor of
            the loss for each class, default None), ``sub_centers`` (vectors per class, of which the closest counts;
            default 1) and ``chunk`` (classes per block: ``"auto"``, a number, or None for dense logits).

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Raises:
        ValueError: If ``margin`` is negative or has another shape than (num_classes,), or ``scale`` is not positive.

    Example:
        >>> head = hs.losses.AMSoftmax(64, 10)
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        margin: float | Tensor = 0.35,
        *,
        scale: float = 30.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        margin = check_margins(margin, num_classes)
        super().__init__(
            in_features, num_classes, margin, scale=scale, device=device, dtype=dtype, **without(options, "angular")
        )

    def target(self, cos: Tensor, sample: Sample) -> Tensor:
        return cos - self.margin_of(sample)

    def known_target(self) -> tuple[bool, float] | None:
        known = type(self).target is AMSoftmax.target and not isinstance(self.margin, Tensor)
        return (False, float(self.margin)) if known else None


class ArcFace(MarginSoftmax):
    """Target logit s·cos(θ_y + m), or s·(cos θ_y − m·sin m) for θ_y > π − m; other logits s·cos θ_j; m in radians.

    See Deng et al. 2019. The derivative of cos(θ + m) with respect to cos θ is unbounded at θ = 0 and π; here it is
    finite, see :func:`hypersphere.functional.angle`.

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        margin: m in radians, ≥ 0, a number or a tensor with one per class. 0.5 (29°) suits many classes;
            :func:`fitting_margin` suggests one for few.
        scale: s > 0, the length to which features are scaled.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Losses are computed in at least float32.
        **options: further settings of :class:`MarginSoftmax`: ``bias`` (add a learned number per class to the logits;
            default False), ``annealing`` (an :class:`Annealing` or :class:`MarginWarmup` by which the margin grows, or
            the name of a preset; default None, the full margin at once), ``detach_margin`` (treat the margin as a
            constant in the backward pass; default False), ``reduction`` (``"mean"``, ``"sum"`` or ``"none"`` over the
            samples; default ``"mean"``), ``ignore_index`` (label of ignored samples, default −100), ``label_smoothing``
            (share of the target that is spread over all classes, in [0, 1], default 0), ``class_weight`` (a factor of
            the loss for each class, default None), ``sub_centers`` (vectors per class, of which the closest counts;
            default 1) and ``chunk`` (classes per block: ``"auto"``, a number, or None for dense logits).

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Raises:
        ValueError: If ``margin`` is negative, π or more (did you pass degrees?), or has another shape than
            (num_classes,).

    Example:
        >>> head = hs.losses.ArcFace(64, 10, margin=0.3)
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
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        margin = check_angle(check_margins(margin, num_classes))
        super().__init__(
            in_features, num_classes, margin, scale=scale, device=device, dtype=dtype, **without(options, "angular")
        )

    def target(self, cos: Tensor, sample: Sample) -> Tensor:
        return additive_angle(cos, self.margin_of(sample))

    def known_target(self) -> tuple[bool, float] | None:
        known = type(self).target is ArcFace.target and not isinstance(self.margin, Tensor)
        return (True, float(self.margin)) if known else None


class SphereFaceR(MarginSoftmax):
    """SphereFace-R: SphereFace on normalised features, with a real margin of about 1.4 to 1.7 (Liu et al. 2022).

    | ``form`` | target              | the others   |
    | -------- | ------------------- | ------------ |
    | ``"v0"`` | s·ψ(θ_y)            | s·cos θ_j    |
    | ``"v1"`` | s·cos(min(mθ_y, π)) | s·cos θ_j    |
    | ``"v2"`` | s·cos θ_y           | s·cos(θ_j/m) |

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        margin: m ≥ 1, which multiplies the angle; 1 means no margin.
        scale: s > 0, the length to which features are scaled.
        form: which logits the margin changes: one of the three forms above.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Losses are computed in at least float32.
        **options: further settings of :class:`MarginSoftmax`: ``bias`` (add a learned number per class to the logits;
            default False), ``annealing`` (an :class:`Annealing` or :class:`MarginWarmup` by which the margin grows, or
            the name of a preset; default None, the full margin at once), ``detach_margin`` (treat the margin as a
            constant in the backward pass; default False), ``reduction`` (``"mean"``, ``"sum"`` or ``"none"`` over the
            samples; default ``"mean"``), ``ignore_index`` (label of ignored samples, default −100), ``label_smoothing``
            (share of the target that is spread over all classes, in [0, 1], default 0), ``class_weight`` (a factor of
            the loss for each class, default None), ``sub_centers`` (vectors per class, of which the closest counts;
            default 1) and ``chunk`` (classes per block: ``"auto"``, a number, or None for dense logits).

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Raises:
        ValueError: If ``margin`` is below 1 or ``form`` is unknown.

    Example:
        >>> head = hs.losses.SphereFaceR(64, 10)
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        margin: float = 1.5,
        *,
        scale: float = 30.0,
        form: str = "v2",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        margin = check_margin(margin)
        check_choice("form", form, ("v0", "v1", "v2"))
        super().__init__(
            in_features, num_classes, margin, scale=scale, device=device, dtype=dtype, **without(options, "angular")
        )
        self.form = form

    @property
    def changes_target(self) -> bool:
        return self.form != "v2"

    @property
    def changes_others(self) -> bool:
        return self.form == "v2"

    def target(self, cos: Tensor, sample: Sample) -> Tensor:
        return psi(cos, self.margin) if self.form == "v0" else clipped_multiple(cos, self.margin)

    def others(self, cos: Tensor, sample: Sample) -> Tensor:
        return torch.cos(angle(cos) / self.margin)

    def known_others(self, names: tuple[str, ...]) -> tuple[str, float] | None:
        return ("fraction", 1 / self.margin) if type(self).others is SphereFaceR.others else None

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, form={self.form!r}"


CosFace = AMSoftmax


def check_angle(margin: float | Tensor) -> float | Tensor:
    """A margin in radians, less than π."""
    largest = float(margin.max()) if isinstance(margin, Tensor) and margin.device.type != "meta" else margin
    if not isinstance(largest, Tensor) and largest >= math.pi:
        raise ValueError(f"margin={largest!r} is an angle in radians and must be less than π. Did you pass degrees?")
    return margin


class SubcenterArcFace(ArcFace):
    """ArcFace with cos θ_j = max_k cos ∠(x, w_jk) over K sub-centers of a class (Deng et al. 2020, eq. 2-3).

    If labels are noisy or a class is diverse, one sub-center attracts the clean majority and the others attract the
    rest, so a sample need not be close to all samples of its class. ``weight`` has K·num_classes rows; those of one
    class are consecutive. Every softmax head on normalised class vectors accepts ``sub_centers``.

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        margin: m in radians, ≥ 0, a number or a tensor with one per class.
        scale: s > 0, the length to which features are scaled.
        sub_centers: K ≥ 1, the vectors of a class; the paper uses 3.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Losses are computed in at least float32.
        **options: further settings of :class:`MarginSoftmax`: ``bias`` (add a learned number per class to the logits;
            default False), ``annealing`` (an :class:`Annealing` or :class:`MarginWarmup` by which the margin grows, or
            the name of a preset; default None, the full margin at once), ``detach_margin`` (treat the margin as a
            constant in the backward pass; default False), ``reduction`` (``"mean"``, ``"sum"`` or ``"none"`` over the
            samples; default ``"mean"``), ``ignore_index`` (label of ignored samples, default −100), ``label_smoothing``
            (share of the target that is spread over all classes, in [0, 1], default 0), ``class_weight`` (a factor of
            the loss for each class, default None) and ``chunk`` (classes per block: ``"auto"``, a number, or None for
            dense logits).

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
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            in_features,
            num_classes,
            margin,
            scale=scale,
            sub_centers=sub_centers,
            device=device,
            dtype=dtype,
            **options,
        )
