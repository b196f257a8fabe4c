"""The softmax losses of the paper and the thesis: plain, on normalised vectors, and with multiplicative margins."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._core.sphere import angle
from ..angular import AngularLike, Cosine, SquareCosine
from ..functional.margins import check_margin, psi
from ._inputs import without, without_margin
from .margin_softmax import MarginSoftmax
from .sample import Sample


class Softmax(MarginSoftmax):
    """Logits W_j·x + b_j (thesis 2.1): the ordinary linear classifier with cross-entropy, as a head.

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        bias: add a learned number to the logit of each class; off by default, as everywhere in the thesis.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Losses are computed in at least float32.
        **options: further settings of :class:`MarginSoftmax`: ``reduction`` (``"mean"``, ``"sum"`` or ``"none"`` over
            the samples; default ``"mean"``), ``ignore_index`` (label of ignored samples, default −100),
            ``label_smoothing`` (share of the target that is spread over all classes, in [0, 1], default 0),
            ``class_weight`` (a factor of the loss for each class, default None) and ``chunk`` (classes per block:
            ``"auto"``, a number, or None for dense logits).

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Example:
        >>> head = hs.losses.Softmax(64, 10)
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    normalize = False

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        bias: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            in_features,
            num_classes,
            bias=bias,
            device=device,
            dtype=dtype,
            **without_margin(without(options, "scale", "angular")),
        )


class WSoftmax(MarginSoftmax):
    """Logits ‖x‖·g(θ_j) (paper eq. 10; with the cosine, the modified softmax of thesis 2.18).

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Losses are computed in at least float32.
        **options: further settings of :class:`MarginSoftmax`: ``bias`` (add a learned number per class to the logits;
            default False), ``reduction`` (``"mean"``, ``"sum"`` or ``"none"`` over the samples; default ``"mean"``),
            ``ignore_index`` (label of ignored samples, default −100), ``label_smoothing`` (share of the target that is
            spread over all classes, in [0, 1], default 0), ``class_weight`` (a factor of the loss for each class,
            default None), ``sub_centers`` (vectors per class, of which the closest counts; default 1) and ``chunk``
            (classes per block: ``"auto"``, a number, or None for dense logits).

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Example:
        >>> head = hs.losses.WSoftmax(64, 10, angular="sigmoid")
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        angular: str | AngularLike = "cosine",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        options = without_margin(without(options, "scale"))
        super().__init__(in_features, num_classes, angular=angular, device=device, dtype=dtype, **options)


class SSoftmax(MarginSoftmax):
    """Logits s·g(θ_j) (paper sec. 3, supplement C): features and class vectors are both on the sphere.

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        scale: s > 0, usually 10 to 70: the larger, the closer a correct sample comes to loss 0 at the same angle.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
        device: device on which the parameters are created; None is torch's default device.
        dtype: floating-point type of the parameters; None is torch's default. Losses are computed in at least float32.
        **options: further settings of :class:`MarginSoftmax`: ``bias`` (add a learned number per class to the logits;
            default False), ``reduction`` (``"mean"``, ``"sum"`` or ``"none"`` over the samples; default ``"mean"``),
            ``ignore_index`` (label of ignored samples, default −100), ``label_smoothing`` (share of the target that is
            spread over all classes, in [0, 1], default 0), ``class_weight`` (a factor of the loss for each class,
            default None), ``sub_centers`` (vectors per class, of which the closest counts; default 1) and ``chunk``
            (classes per block: ``"auto"``, a number, or None for dense logits).

    Shape:
        - features: (..., in_features); labels: (...), class indices.
        - Output: scalar, or (...) with ``reduction="none"``; :meth:`logits` gives (..., num_classes).

    Example:
        >>> head = hs.losses.SSoftmax(64, 10, scale=30.0)
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        scale: float = 30.0,
        angular: str | AngularLike = "cosine",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            in_features,
            num_classes,
            scale=scale,
            angular=angular,
            device=device,
            dtype=dtype,
            **without_margin(options),
        )


class GASoftmax(MarginSoftmax):
    """Target logit ‖x‖·g(mθ_y), other logits ‖x‖·g(θ_j) (paper eq. 11).

    The formulas of the linear and the sigmoid g keep decreasing beyond π. The cosine and the square cosine are
    continued monotonically by :func:`hypersphere.functional.psi`. Your own g is evaluated at mθ: it needs
    ``from_angle`` and should decrease on [0, mπ].

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        margin: m ≥ 1, which multiplies the angle; 1 means no margin. Larger values separate more and are harder to
            train.
        angular: g, a name or an object of :mod:`hypersphere.angular`.
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
        ValueError: If ``margin`` is below 1.
        TypeError: If ``angular`` has no method ``from_angle``.

    Example:
        >>> head = hs.losses.GASoftmax(64, 10, margin=4, angular="linear")
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        margin: float = 4,
        *,
        angular: str | AngularLike = "linear",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        margin = check_margin(margin)
        super().__init__(
            in_features, num_classes, margin, angular=angular, device=device, dtype=dtype, **without(options, "scale")
        )
        if not hasattr(self.angular, "from_angle"):
            raise TypeError(f"angular={angular!r} needs a method from_angle(theta) for the margin g(mθ)")

    def target(self, cos: Tensor, sample: Sample | AngularLike) -> Tensor:
        return multiplied(cos, sample.g if isinstance(sample, Sample) else sample, self.margin)


class ASoftmax(GASoftmax):
    """A-Softmax, SphereFace: target logit ‖x‖·ψ(θ_y), other logits ‖x‖·cos θ_j (thesis 2.20).

    It is :class:`GASoftmax` with the cosine. Networks trained from scratch need ``annealing="sphereface"`` (thesis
    A.7); the default is the pure margin.

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        margin: m ≥ 1, which multiplies the angle; 1 means no margin, 4 is the thesis' choice.
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

    Example:
        >>> head = hs.losses.ASoftmax(64, 10, annealing="sphereface")
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        margin: float = 4,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            in_features,
            num_classes,
            margin,
            angular="cosine",
            device=device,
            dtype=dtype,
            **without(options, "angular"),
        )


class LSoftmax(ASoftmax):
    """L-Softmax: target logit ‖W_y‖‖x‖·ψ(θ_y), other logits W_j·x (thesis 2.4-2.13).

    Args:
        in_features: dimension of the features, that is of the network's embedding.
        num_classes: number of classes, and of class vectors in ``weight``.
        margin: m ≥ 1, which multiplies the angle; 1 means no margin.
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
        >>> head = hs.losses.LSoftmax(64, 10, margin=2)
        >>> features, labels = torch.randn(4, 64), torch.tensor([0, 1, 2, 9])
        >>> loss = head(features, labels)
        >>> loss.shape, head.logits(features).shape
        (torch.Size([]), torch.Size([4, 10]))
    """

    normalize = False


SphereFace = ASoftmax


def multiplied(cos: Tensor, g: AngularLike, margin: float) -> Tensor:
    """g(mθ), monotonically continued, from cos θ."""
    if margin == 1:
        return g.from_cos(cos)
    if isinstance(g, Cosine | SquareCosine) and g.closed_form() is not None:
        return psi(cos, margin, g.kind)
    return g.from_angle(margin * angle(cos))  # type: ignore[attr-defined]
